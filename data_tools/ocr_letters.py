"""52,152 handwritten lower-case letters of 16x8 pixels, one bit each: an extra data set that is not in the paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from data_tools.dataset import Dataset
from data_tools.errors import DataError, counted
from data_tools.own_arrays import open_npz

FILE = "ocr-letters-16x8.npz"


def is_present(folder: Path) -> bool:
    return (folder / FILE).is_file()


def load_ocr_letters(folder: Path, test_fold: int = 9) -> Dataset:
    """Nine of the ten folds for training and `test_fold` for testing; letters of one word share a fold."""
    path = folder / FILE
    if not path.is_file():
        raise DataError(f"{folder} lacks {FILE}; put it there (arrays bits, labels, word_len and folds).")
    arrays = open_npz(path)
    for name, n_axes in (("bits", 2), ("labels", 1), ("word_len", 1), ("folds", 1)):
        if name not in arrays or arrays[name].ndim != n_axes or arrays[name].dtype != np.uint8:
            raise DataError(
                f"{path} lacks a byte array {name} with {counted(n_axes, 'axis', 'axes')}; get the file again."
            )
    bits, labels = arrays["bits"], arrays["labels"].astype(np.int64)
    if len(arrays["folds"]) != len(arrays["word_len"]):
        raise DataError(f"{path} has folds and lengths for different numbers of words; get the file again.")
    folds = np.repeat(arrays["folds"], arrays["word_len"])  # one per word, and words are stored letter by letter
    if bits.shape[1] != 16 or not len(bits) == len(labels) == len(folds):
        raise DataError(f"{path}: bits of shape {bits.shape} do not fit 16x8 images with labels; get the file again.")
    if test_fold not in np.unique(folds):
        raise DataError(f"{path}: there is no fold {test_fold}; choose one of 0 to {folds.max()}.")
    X = np.unpackbits(bits, axis=1)
    test = folds == test_fold
    return Dataset(
        "ocr-letters",
        X[~test],
        labels[~test],
        X[test],
        labels[test],
        tuple("abcdefghijklmnopqrstuvwxyz"),
        image_shape=(16, 8),
    )
