"""Large data for workers: a file that all of them look into, instead of a copy for each.

A worker is a process of its own that gets its data through a pipe, packed and unpacked: the raw images of Section 4.4
are 5.6 GB, and would be there several times over for a single worker.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nesi.experiment.tasks import RunData

LARGE = 256_000_000  # bytes; less than that is quickly sent
_PREFIX = "points-"


class PointsInFile(NamedTuple):
    """Takes the place of a matrix on its way to a worker."""

    path: str


@contextlib.contextmanager
def large_parts_in_files(data: RunData, folder: Path | None) -> Iterator[RunData]:
    """What workers are sent. The files are in `folder`, which is ours alone, and go when the work is done."""
    matrices = {"X_train": data.X_train, "X_test": data.X_test}
    large = {name: X for name, X in matrices.items() if isinstance(X, np.ndarray) and X.nbytes >= LARGE}
    if folder is None or not large:
        yield data
        return
    for left_behind in folder.glob(f"{_PREFIX}*"):  # by a process that was killed
        shutil.rmtree(left_behind, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_PREFIX) as place:
        try:
            for name, X in large.items():
                np.save(Path(place, f"{name}.npy"), X, allow_pickle=False)
        except OSError:  # the disk is full: then it takes memory
            shutil.rmtree(place, ignore_errors=True)
            Path(place).mkdir(exist_ok=True)
            large = {}
        files: dict[str, Any] = {name: PointsInFile(str(Path(place, f"{name}.npy"))) for name in large}
        yield replace(data, **files)


def opened(data: RunData) -> RunData:
    """What a worker has: files are read where they are looked at, and all workers share what is in memory of them."""
    found: dict[str, Any] = {
        name: np.load(X.path, mmap_mode="r", allow_pickle=False)
        for name, X in (("X_train", data.X_train), ("X_test", data.X_test))
        if isinstance(X, PointsInFile)
    }
    return replace(data, **found)
