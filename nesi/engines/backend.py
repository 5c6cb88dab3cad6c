"""The one place that calls `pytensor.function` and knows what a backend is.

A compiled function owns no weights: whoever calls it lends it a state, which comes back updated. So every
network of a process that has the same graph (and any size) shares one compilation.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytensor
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.rewriting.basic import dfs_rewriter

from nesi.engines import kernels
from nesi.engines.compilation_cache import one_compilation
from nesi.engines.compiled_sources import keep_sources_together
from nesi.engines.linker import DirectNumbaLinker
from nesi.errors import NesiError

Expression = Any
State = dict[str, Any]

_MODES = {"numba": "NUMBA", "c": "CVM", "jax": "JAX"}
_ANNOUNCE_AFTER_SECONDS = 3.0
_START_OF_AN_EMPTY_LINE = "\r\x1b[K"
_AFTER_SPECIALIZATION = 3.5  # a position in PyTensor's sequence of rewrites

keep_sources_together()

# Numba's thread pool and a lent state both serve one caller at a time.
_one_call_at_a_time = threading.RLock()


_forked = False


def _after_fork() -> None:
    global _forked, _one_call_at_a_time
    _forked = True
    _one_call_at_a_time = threading.RLock()  # another thread of the parent may have held it


os.register_at_fork(after_in_child=_after_fork)


def _check_threads(backend: str) -> None:
    """Numba's threads (OpenMP) and JAX's do not survive a fork: the child would wait for them, or be aborted."""
    if _forked and backend != "c":
        raise NesiError(
            "This process was forked from one that had loaded NeSi, and its threads do not survive a fork: start "
            "processes with multiprocessing.get_context('spawn') or 'forkserver'."
        )


def has_kernels(backend: str) -> bool:
    """Whether the Ops of `nesi.engines.kernels` are compiled there; elsewhere the plain equations are."""
    return backend == "numba"


def _mode(backend: str) -> Any:
    mode = get_mode(_MODES[backend])
    if not has_kernels(backend):
        return mode
    mode = Mode(DirectNumbaLinker(), mode.provided_optimizer)
    # After products have become plain ones of matrices (2), before elementwise operations are fused (49).
    return mode.register((dfs_rewriter(kernels.transposed_products), _AFTER_SPECIALIZATION))


class CompiledFunction:
    """A PyTensor function over a lent state: `function(state, *inputs)` updates the state and returns outputs."""

    def __init__(
        self,
        name: str,
        backend: str,
        inputs: Sequence[Expression],
        outputs: Sequence[Expression],
        state: Mapping[str, Expression],
        updates: Mapping[str, Expression] | None = None,
    ) -> None:
        self.name, self.backend = name, backend
        self._state = dict(state)
        self._updated = list(updates or {})
        self._called = False
        self._results = [*outputs, *(updates or {}).values()]
        with warnings.catch_warnings():
            # JAX leaves out assertions about sizes that PyTensor adds where arrays meet; ours fit.
            warnings.filterwarnings("ignore", message="Skipping Assert")
            self._function = pytensor.function(
                list(inputs),
                list(outputs),
                updates=[(state[key], value) for key, value in (updates or {}).items()],
                mode=_mode(backend),
                accept_inplace=True,  # the kernels write over the weights they are given
                on_unused_input="ignore",
                trust_input=backend != "jax",
            )

    def __call__(self, state: State, *inputs: Any) -> list[Any]:
        _check_threads(self.backend)
        with _one_call_at_a_time:
            for key, shared in self._state.items():
                shared.container.storage[0] = state[key]
            try:
                outputs = self._function(*inputs) if self._called else self._first_call(inputs)
            except ZeroDivisionError:  # the sum of a softmax that has overflowed
                raise NesiError(
                    f"The numbers in {self.name} were too extreme: use a smaller A, or dtype='float64'."
                ) from None
            for key, shared in self._state.items():
                if key in self._updated:
                    state[key] = _of_type(shared.container.storage[0], shared.type.dtype)
                shared.container.storage[0] = None  # weights belong to their network, not to the process
        return outputs

    def _first_call(self, inputs: Sequence[Any]) -> list[Any]:
        """Compilation happens in the first call: say so if it takes long."""
        timer = threading.Timer(_ANNOUNCE_AFTER_SECONDS, announce, [self.name])
        timer.start()
        try:
            with one_compilation(self._results):
                outputs = self._function(*inputs)
        finally:
            timer.cancel()
        self._called = True
        return outputs


def _announce(name: str) -> None:
    alone = _START_OF_AN_EMPTY_LINE if sys.stderr.isatty() else ""  # a progress bar is drawn again below
    print(f"{alone}nesi: compiling {name} (once per installation, up to 30 s)", file=sys.stderr)


announce: Callable[[str], None] = _announce


def _of_type(value: Any, dtype: str) -> Any:
    """JAX may return float64 where the graph says float32: fused casts get lost there."""
    return value if value.dtype == dtype else value.astype(dtype)


def state_variable(name: str, ndim: int, dtype: str) -> Expression:
    """A shared variable that fixes type and rank only: sizes must not become part of the compiled code."""
    placeholder = np.ones((1,) * ndim, dtype=dtype)
    return pytensor.shared(placeholder, name=name, shape=(None,) * ndim)
