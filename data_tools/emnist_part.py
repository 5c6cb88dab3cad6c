"""Real characters of NIST SD19 in EMNIST's format, regrouped so that no image occurs twice: digits and letters.

A part of SD19, not the split of Section 4.4: fewer points, EMNIST's preprocessing, and a writer may be in both sets.
"""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_tools.class_choice import with_classes
from data_tools.dataset import UNLABELED, Dataset
from data_tools.emnist import CLASS_GROUPS, named_classes, upright
from data_tools.errors import DataError
from data_tools.idx import check_pair, read_idx_file

FOLDER = "emnist-part"
#: SHA-256 of each unpacked file, so that it does not matter whether, and how, a copy is compressed.
CHECKSUMS = {
    "digits-train-images-idx3-ubyte": "c1a2fe7e2aa9c199457c1b2cec14a188da4a5759c1dbd695b19f061dc2b31a4e",
    "digits-train-labels-idx1-ubyte": "b38df25ba9dcb7dbe0088a775f728802c367e01e321ed8d5f2779a6bb9a89716",
    "digits-test-images-idx3-ubyte": "c2b87bc50351f5300c17600242d002d4a1cce3a49a8b82f88e8e5170da6cb049",
    "digits-test-labels-idx1-ubyte": "45ed95dd96b53c409fdd3c798e36b278a30dda3b4c1a9feaea2f7a7a77e42c3d",
    "letters-train-images-idx3-ubyte": "6914f6d715fec732e0bc4042162eca66331ebc557d372ce8fec167a1b0eb755e",
    "letters-train-labels-idx1-ubyte": "81f87126a0a59259ba8ef4a5e01c80c31192e74360e21f1d8a4c82c1c5812e9d",
    "letters-test-images-idx3-ubyte": "8d55056a7edd59345a1f42d9a59b5f24b457bfc9aa874eea7831217fbceb95e7",
    "letters-test-labels-idx1-ubyte": "c715a6e592ae52be1e09ef87e42bcc2917383d0ac79702adce54d43e010be0d9",
    "letters-unlabeled-images-idx3-ubyte": "f60754ccaa7196e83b414aec1f02c4d9ac5172866552b0415d484929c45981f1",
}
CLASS_NAMES = {"digits": CLASS_GROUPS["digits"], "letters": CLASS_GROUPS["letters"]}
_UNLABELED_FILE = "letters-unlabeled-images-idx3-ubyte"

Bytes = npt.NDArray[np.uint8]


def files_of(kind: str) -> list[str]:
    """The stems of the four files of `digits` or `letters`; that of the unlabeled letters is an extra."""
    return [stem for stem in CHECKSUMS if stem.startswith(f"{kind}-") and stem != _UNLABELED_FILE]


def find_file(folder: Path, stem: str) -> Path | None:
    return next((path for path in (folder / f"{stem}.gz", folder / stem) if path.is_file()), None)


def is_present(folder: Path) -> bool:
    """Whether any of the files is there; a loader then names the one that it lacks."""
    return any(find_file(folder, stem) is not None for stem in CHECKSUMS)


def load_digits(folder: Path, classes: list[str] | None = None) -> Dataset:
    """90,731 training and 57,918 test images, 28x28, upright; `classes`: only these digits, in this order."""
    return with_classes(_load(folder, "digits"), classes)


def load_letters(folder: Path, unlabeled: bool = False, classes: list[str] | str | None = None) -> Dataset:
    """58,405 training and 8,200 test images of A to Z and a to z, in their natural, uneven frequencies.

    `unlabeled`: 43,325 further letters without labels join the training set, after the labeled ones. With `classes`
    they all stay: nobody knows which of them belong to the chosen classes.
    """
    if not isinstance(unlabeled, bool):
        raise DataError(f"unlabeled is {unlabeled!r}, expected true or false; correct it.")
    return with_classes(_load(folder, "letters", unlabeled), named_classes("emnist-part-letters", classes))


def _load(folder: Path, kind: str, unlabeled: bool = False) -> Dataset:
    names, arrays = CLASS_NAMES[kind], {}
    for part in ("train", "test"):
        images = _read(folder, f"{kind}-{part}-images-idx3-ubyte")
        labels = _read(folder, f"{kind}-{part}-labels-idx1-ubyte")
        check_pair(images, labels, f"{folder}: {kind}-{part}")
        arrays[part] = upright(images), labels.astype(np.int64)
    X, y = arrays["train"]
    if unlabeled:
        more = upright(_read(folder, _UNLABELED_FILE))
        X, y = np.concatenate([X, more]), np.concatenate([y, np.full(len(more), UNLABELED)])
    return Dataset(f"emnist-part-{kind}", X, y, *arrays["test"], class_names=names, image_shape=(28, 28))


def _read(folder: Path, stem: str) -> Bytes:
    path = find_file(folder, stem)
    if path is None:
        raise DataError(f"{folder} lacks {stem}.gz (or unpacked); this data has no public source, copy the file there.")
    array = read_idx_file(path, n_axes=3 if "images" in stem else 1)
    if content_checksum(array) != CHECKSUMS[stem]:
        raise DataError(f"{path} is not the known file (its content has another SHA-256); copy it there again.")
    return array


def content_checksum(array: Bytes) -> str:
    """SHA-256 of the unpacked idx file that holds this array, without reading the file once more."""
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    digest = hashlib.sha256(header)
    digest.update(array.reshape(-1).data)
    return digest.hexdigest()
