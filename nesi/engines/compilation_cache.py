"""Several processes may compile at the same time: what they share on disk is kept in order here.

Numba numbers the compiled versions of a function in an index file and takes no lock: two processes that add one at the
same moment choose the same number, and whoever loads the loser's entry crashes. With a lock around that one moment,
processes that compile different graphs need not wait for each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytensor
from filelock import FileLock
from numba.core.caching import IndexDataCacheFile
from pytensor.printing import debugprint

_save = IndexDataCacheFile.save


def _lock(name: str) -> FileLock:
    return FileLock(Path(pytensor.config.base_compiledir) / f"nesi-{name}.lock")


def _save_one_at_a_time(self: IndexDataCacheFile, key: Any, data: Any) -> None:
    with _lock("cache-index"):
        _save(self, key, data)


IndexDataCacheFile.save = _save_one_at_a_time


def one_compilation(outputs: Sequence[Any]) -> FileLock:
    """A lock for this graph: a second process that needs it waits, and then loads what the first has compiled.

    There are sixteen of them for all graphs, so that few files are left behind.
    """
    graph = debugprint(list(outputs), print_type=True, file="str")
    return _lock(f"graphs-{hashlib.sha256(graph.encode()).hexdigest()[0]}")
