"""EMNIST, the public substitute for NIST SD19: idx files (single, or inside the official gzip.zip) or Matlab files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.archives import member_names, read_member
from data_tools.dataset import Dataset
from data_tools.errors import DataError, nearest
from data_tools.idx import check_pair, read_idx, read_idx_file

SPLITS = ("byclass", "bymerge", "balanced", "digits", "letters", "mnist")
ARCHIVE = "gzip.zip"
_IDX = {"images": "idx3-ubyte", "labels": "idx1-ubyte"}
_MERGED = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabdefghnqrt"
#: What each label stands for, in the order of labels.
CLASS_NAMES = {
    "byclass": tuple("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"),
    "bymerge": tuple(_MERGED),
    "balanced": tuple(_MERGED),
    "digits": tuple("0123456789"),
    "letters": tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
    "mnist": tuple("0123456789"),
}


def is_present(folder: Path) -> bool:
    return (
        (folder / ARCHIVE).is_file() or any(folder.glob("emnist-*-train-images*")) or any(folder.glob("emnist-*.mat"))
    )


def load_emnist(folder: Path, split: str) -> Dataset:
    """One of the six splits, upright 28x28 images, raw values 0..255."""
    if split not in SPLITS:
        raise DataError(f'"{split}" is not a split of EMNIST{nearest(split, SPLITS)}; use one of {", ".join(SPLITS)}.')
    matlab_file = folder / f"emnist-{split}.mat"
    parts = _read_matlab(matlab_file) if matlab_file.is_file() else _read_idx_parts(folder, split)
    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        images, labels = parts[f"{part}-images"], parts[f"{part}-labels"]
        where = f"{folder}: emnist-{split}-{part}"
        if images.shape[1:] != (28, 28):
            raise DataError(f"{where} holds images of {images.shape[1:]} pixels, expected (28, 28); download it again.")
        check_pair(images, labels, where)
        y = labels.astype(np.int64) - (1 if split == "letters" else 0)  # only this split starts at 1
        if y.min() < 0 or y.max() >= len(CLASS_NAMES[split]):
            raise DataError(
                f"{where} has labels from {y.min()} to {y.max()} (starting at 0), "
                f"expected 0 to {len(CLASS_NAMES[split]) - 1}; download the file again."
            )
        # Both file formats store the pixels column by column.
        arrays[f"X_{part}"] = np.ascontiguousarray(images.transpose(0, 2, 1)).reshape(len(images), -1)
        arrays[f"y_{part}"] = y
    return Dataset(f"emnist-{split}", class_names=CLASS_NAMES[split], image_shape=(28, 28), **arrays)


Parts = dict[str, npt.NDArray[np.uint8]]


def _read_idx_parts(folder: Path, split: str) -> Parts:
    reader = _archive_reader(folder / ARCHIVE) if (folder / ARCHIVE).is_file() else _file_reader(folder)
    return {
        f"{part}-{what}": reader(f"emnist-{split}-{part}-{what}-{kind}", 3 if what == "images" else 1)
        for part in ("train", "test")
        for what, kind in _IDX.items()
    }


def _file_reader(folder: Path) -> Callable[[str, int], npt.NDArray[np.uint8]]:
    def read(stem: str, n_axes: int) -> npt.NDArray[np.uint8]:
        for path in (folder / stem, folder / f"{stem}.gz"):
            if path.is_file():
                return read_idx_file(path, n_axes)
        raise DataError(
            f"{folder} lacks {stem} (or .gz); "
            f'run "python -m data_tools fetch emnist" or put the file, or the official {ARCHIVE}, there.'
        )

    return read


def _archive_reader(archive: Path) -> Callable[[str, int], npt.NDArray[np.uint8]]:
    names = list(member_names(archive))

    def read(stem: str, n_axes: int) -> npt.NDArray[np.uint8]:
        for name in names:
            if name.rsplit("/", 1)[-1] in (stem, f"{stem}.gz"):
                return read_idx(io.BytesIO(read_member(archive, name)), f"{archive}: {name}", n_axes)
        raise DataError(f"{archive} lacks {stem}.gz; download the official EMNIST archive again.")

    return read


def _read_matlab(path: Path) -> Parts:
    from scipy.io import loadmat

    try:
        dataset = loadmat(path)["dataset"][0, 0]
        parts = {}
        for part in ("train", "test"):
            for what in _IDX:
                values = np.asarray(dataset[part][0, 0][what])
                if values.dtype.kind not in "uif":
                    raise ValueError(f"{part} {what} are not numbers")
                shape = (-1, 28, 28) if what == "images" else (-1,)
                parts[f"{part}-{what}"] = values.astype(np.uint8).reshape(shape)
    except Exception as error:  # scipy's reader raises all kinds of errors on a damaged file
        raise DataError(
            f"{path} cannot be read as an EMNIST Matlab file ({type(error).__name__}); download it again."
        ) from error
    return parts
