"""Cache for arrays that take minutes to prepare, under a key that covers everything they were made from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.locations import atomic_file, cache_dir

Arrays = dict[str, npt.NDArray[Any]]


def prepared(name: str, made_from: dict[str, Any], build: Callable[[], Arrays]) -> Arrays:
    """The arrays of `build()`, from the cache if they were made before from exactly the same inputs.

    `made_from` must hold the content's fingerprint, the options and the version of the preprocessing: if any
    of them changes, so does the file name, so a stale file is never read. A damaged cache file is rebuilt.
    """
    key = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()[:24]
    path = cache_dir() / "prepared" / f"{name}-{key}.npz"
    cached = _read(path)
    if cached is not None:
        return cached
    arrays = build()
    try:
        with atomic_file(path) as temporary, temporary.open("wb") as stream:
            np.savez(stream, **arrays)  # type: ignore[arg-type]
    except OSError:
        pass  # a full or read-only disk only costs time at the next start
    return arrays


def _read(path: Path) -> Arrays | None:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except Exception:  # missing or damaged in any way: it will be rebuilt
        return None
