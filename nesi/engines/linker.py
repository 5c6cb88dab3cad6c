"""How PyTensor's graphs become machine code with numba: once, and not twice.

PyTensor wraps the function that it writes for a graph in one that only calls it, so that numba finds it in its cache
again. LLVM then optimises the graph with all its kernels for the function, and once more for the wrapper. Here the
function itself is what numba keeps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytensor import config
from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS
from pytensor.link.numba.dispatch.basic import numba_funcify_and_cache_key, numba_njit
from pytensor.link.numba.linker import NumbaLinker


class DirectNumbaLinker(NumbaLinker):
    """A `NumbaLinker` without the wrapper around the graph."""

    def fgraph_convert(self, fgraph: Any, **options: Any) -> tuple[Callable[..., Any], str | None]:
        function, key = numba_funcify_and_cache_key(fgraph, **options)
        return function, key if config.numba__cache else None

    def jit_compile(self, converted: tuple[Any, str | None]) -> Callable[..., Any]:
        function, key = converted
        graph = function.py_func
        if key is not None:
            # Numba looks for it under the name of its source, which is a temporary file.
            graph.__code__ = graph.__code__.replace(co_filename="<graph>")
            CACHED_SRC_FUNCTIONS[graph] = f"{key}_direct_fastmath{int(config.numba__fastmath)}"
        return numba_njit(graph, final_function=True, cache=key is not None)
