"""EMNIST, the public substitute for NIST SD19: idx files (single, or inside the official gzip.zip) or Matlab files."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.archives import member_names, read_member
from data_tools.class_choice import with_classes
from data_tools.dataset import Dataset
from data_tools.errors import DataError, nearest
from data_tools.idx import check_pair, read_idx, read_idx_file

SPLITS = ("byclass", "bymerge", "balanced", "digits", "letters", "mnist")
ARCHIVE = "gzip.zip"
_IDX = {"images": "idx3-ubyte", "labels": "idx1-ubyte"}
_DIGITS, _UPPER, _LOWER = "0123456789", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz"
_MERGED = _DIGITS + _UPPER + "abdefghnqrt"
#: What each label stands for, in the order of labels.
CLASS_NAMES = {
    "byclass": tuple(_DIGITS + _UPPER + _LOWER),
    "bymerge": tuple(_MERGED),
    "balanced": tuple(_MERGED),
    "digits": tuple(_DIGITS),
    "letters": tuple(_UPPER),
    "mnist": tuple(_DIGITS),
}
#: Words that stand for a list of classes: the paper's task with letters has 52 of them.
CLASS_GROUPS = {
    "digits": tuple(_DIGITS),
    "letters": tuple(_UPPER + _LOWER),
    "upper": tuple(_UPPER),
    "lower": tuple(_LOWER),
}
_ROWS = 4096  # how many images are turned at a time


def is_present(folder: Path) -> bool:
    return (
        (folder / ARCHIVE).is_file() or any(folder.glob("emnist-*-train-images*")) or any(folder.glob("emnist-*.mat"))
    )


def load_emnist(folder: Path, split: str, classes: list[str] | str | None = None) -> Dataset:
    """One of the six splits, upright 28x28 images, raw values 0..255.

    `classes`: only these, numbered in this order; a list of names, or one of digits, letters, upper and lower.
    """
    if split not in SPLITS:
        raise DataError(f'"{split}" is not a split of EMNIST{nearest(split, SPLITS)}; use one of {", ".join(SPLITS)}.')
    chosen = named_classes(f"emnist-{split}", classes)
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
        arrays[f"X_{part}"] = upright(images)
        arrays[f"y_{part}"] = y
    dataset = Dataset(f"emnist-{split}", class_names=CLASS_NAMES[split], image_shape=(28, 28), **arrays)
    return with_classes(dataset, chosen)


def upright(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """One upright image per row. All files store the pixels column by column.

    The images are turned where they are, some at a time: a second copy of `byclass` would take half a gigabyte.
    """
    for start in range(0, len(images), _ROWS):
        some = images[start : start + _ROWS]
        some[:] = some.transpose(0, 2, 1).copy()
    return images.reshape(len(images), -1)


def named_classes(name: str, classes: list[str] | str | None) -> list[str] | None:
    """The list of classes that one word stands for; a list stays as it is."""
    if not isinstance(classes, str):
        return classes
    if classes not in CLASS_GROUPS:
        words = tuple(CLASS_GROUPS)
        raise DataError(
            f'{name}: classes is "{classes}"{nearest(classes, words)}, expected a list of classes or one of '
            f"{', '.join(words)}; correct it."
        )
    return list(CLASS_GROUPS[classes])


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
