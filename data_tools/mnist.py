"""MNIST and Fashion-MNIST: 28x28 grey images, raw values 0..255, 60000 for training and 10000 for testing."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_tools.class_choice import with_classes
from data_tools.dataset import Dataset
from data_tools.errors import DataError
from data_tools.idx import check_pair, read_idx_file

DIGIT_NAMES = tuple("0123456789")
FASHION_NAMES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
#: File stems and formats. The authors' program writes `.idx` instead of `-idx`; both are found.
PARTS = {
    "train-images": "idx3-ubyte",
    "train-labels": "idx1-ubyte",
    "t10k-images": "idx3-ubyte",
    "t10k-labels": "idx1-ubyte",
}
SIZES = {"train": 60000, "t10k": 10000}


def find_parts(folder: Path) -> dict[str, Path]:
    """Those of the four files that are in `folder`, under any of their names."""
    found = {}
    for part, kind in PARTS.items():
        for name in (f"{part}-{kind}", f"{part}.{kind}", f"{part}-{kind}.gz", f"{part}.{kind}.gz"):
            if os.path.isfile(folder / name):  # also of a folder that can't exist, such as one with a too long name
                found[part] = folder / name
                break
    return found


def is_present(folder: Path) -> bool:
    return len(find_parts(folder)) == len(PARTS)


def load_mnist(folder: Path, classes: list[str] | None = None) -> Dataset:
    """`classes`: use only these digits, numbered in this order."""
    return with_classes(_load(folder, "mnist", DIGIT_NAMES), classes)


def load_fashion_mnist(folder: Path, classes: list[str] | None = None) -> Dataset:
    return with_classes(_load(folder, "fashion-mnist", FASHION_NAMES), classes)


def load_idx_folder(folder: Path, classes: list[str] | None = None) -> Dataset:
    """Any four files with the same names and format, with any number and size of images; classes are digits."""
    files = find_parts(folder)
    splits = {}
    for split in SIZES:
        image_file, label_file = files[f"{split}-images"], files[f"{split}-labels"]
        images, labels = read_idx_file(image_file, n_axes=3), read_idx_file(label_file, n_axes=1)
        check_pair(images, labels, f"{image_file} and {label_file.name}")
        splits[split] = images, labels.astype(np.int64)
    (images, y_train), (test_images, y_test) = splits.values()
    names = (
        DIGIT_NAMES if max(y_train.max(), y_test.max()) < 10 else tuple(str(k) for k in range(int(y_train.max()) + 1))
    )
    X_train, X_test = images.reshape(len(images), -1), test_images.reshape(len(test_images), -1)
    return with_classes(
        Dataset(str(folder), X_train, y_train, X_test, y_test, names, image_shape=images.shape[1:]), classes
    )


def _load(folder: Path, name: str, class_names: tuple[str, ...]) -> Dataset:
    files = find_parts(folder)
    missing = [part for part in PARTS if part not in files]
    if missing:
        raise DataError(
            f"{folder} lacks {missing[0]}-{PARTS[missing[0]]} (or .gz); "
            f'run "python -m data_tools fetch {name}" or put the four idx files there.'
        )
    X_train, y_train = _read_split(files, "train", len(class_names))
    X_test, y_test = _read_split(files, "t10k", len(class_names))
    return Dataset(name, X_train, y_train, X_test, y_test, class_names, image_shape=(28, 28))


def _read_split(
    files: dict[str, Path], split: str, n_classes: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    image_file, label_file = files[f"{split}-images"], files[f"{split}-labels"]
    images = read_idx_file(image_file, n_axes=3)
    labels = read_idx_file(label_file, n_axes=1)
    check_pair(images, labels, f"{image_file} and {label_file.name}")
    if images.shape != (SIZES[split], 28, 28):
        raise DataError(
            f"{image_file} holds images of shape {images.shape}, expected {(SIZES[split], 28, 28)}; "
            f"load another data set of this format by its own name or as your own .npz."
        )
    if labels.max() >= n_classes:
        raise DataError(
            f"{label_file} holds the label {labels.max()}, expected 0 to {n_classes - 1}; download the file again."
        )
    return images.reshape(len(images), -1), labels.astype(np.int64)
