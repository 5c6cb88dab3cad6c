"""How many threads one run may use.

A different number of threads can change the last bit of a matrix product, and training amplifies it. So the number is
part of what a run is: it is resolved once, recorded, and the same however many workers share the machine.
"""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

MULTIPLICATIONS_WORTH_THREADS = 10_000_000_000  # per iteration; some seconds on one core
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def available_cores() -> int:
    """Cores this process may use (a container or batch system often grants fewer than the machine has)."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def threads_for(X: Any, C: int) -> int:
    """All cores for a large run; one thread for a small one, which is then faster."""
    entries = X.size if isinstance(X, np.ndarray) else X.nnz
    return available_cores() if entries * C >= MULTIPLICATIONS_WORTH_THREADS else 1


@contextlib.contextmanager
def limited_threads(threads: int | None) -> Iterator[None]:
    """Use `threads` threads for BLAS and for numba's parallel loops; None leaves both alone."""
    if threads is None:
        yield
        return
    import numba
    import threadpoolctl  # type: ignore[import-untyped]

    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, numba.config.NUMBA_NUM_THREADS))
    try:
        with threadpoolctl.threadpool_limits(limits=threads):
            yield
    finally:
        numba.set_num_threads(before)


@contextlib.contextmanager
def thread_environment(threads: int) -> Iterator[None]:
    """Processes started inside inherit the limit before they import anything."""
    before = {name: os.environ.get(name) for name in THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
