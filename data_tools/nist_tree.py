"""The `by_class` tree of NIST SD19: the class of each image, and whether it is for training or testing.

    by_class/<class>/hsf_<n>/hsf_<n>_00000.png          one folder per group of writers
    by_class/<class>/train_<hex>/train_<hex>_00000.png  the training images again, in one folder

<class> is the hexadecimal code of the character (30 to 39, 41 to 5a, 61 to 7a), or like `A_u`, `a_l`.
hsf_4 is the official test set. If a class has a `train_` folder, that is its training set, and its other `hsf_`
folders, which repeat those images, are not read.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError
from data_tools.name_rows import Digests, digest_of

DIGITS = tuple("0123456789")
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
VOWELS = tuple("AEIOUaeiou")
_KNOWN = frozenset(DIGITS + LETTERS)
_TEST_FOLDER = "hsf_4"


@dataclass(frozen=True, slots=True)
class Character:
    """One image of the tree."""

    member: str
    character: str
    writer_folder: str

    @property
    def is_official_test(self) -> bool:
        return self.writer_folder == _TEST_FOLDER

    @property
    def is_gathered(self) -> bool:
        return self.writer_folder.startswith("train_")


@dataclass(frozen=True, slots=True, eq=False)
class TreeIndex:
    """The images in use, in the order of the source: ten bytes each, as there are up to a million.

    Names are not kept; if one is needed (for a message), the source is read again.
    """

    digests: Digests
    labels: npt.NDArray[np.uint8]
    is_test: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.labels)


def index_tree(source: Path, names: Iterable[str], classes: tuple[str, ...]) -> TreeIndex:
    """All images of the wanted classes, without the repeated ones; a misplaced image is an error."""
    number = {character: index for index, character in enumerate(classes)}
    # Arrays of machine numbers instead of lists of objects keep the memory small.
    digests, labels, tests, gathers = array("Q"), array("B"), array("B"), array("B")
    n_images = 0
    for name in names:
        # Archives made on a Mac contain a hidden twin (._name.png) of every file.
        if name.lower().endswith(".png") and not name.rsplit("/", 1)[-1].startswith("."):
            n_images += 1
            image = describe(source, name)
            if image.character in number:
                digests.append(digest_of(name))
                labels.append(number[image.character])
                tests.append(image.is_official_test)
                gathers.append(image.is_gathered)
    if not n_images:
        raise DataError(f"{source} holds no .png image; expected the by_class tree of NIST SD19.")
    label, is_test, is_gathered = (
        np.frombuffer(labels, np.uint8),
        np.frombuffer(tests, np.bool_),
        np.frombuffer(gathers, np.bool_),
    )
    has_gathered = np.zeros(len(classes), dtype=np.bool_)
    has_gathered[label[is_gathered]] = True
    kept = is_test | is_gathered | ~has_gathered[label]
    counts = np.bincount(label[kept], minlength=len(classes))
    missing = [character for character, count in zip(classes, counts, strict=True) if not count]
    if missing:
        raise DataError(
            f"{source} has no image of {', '.join(missing[:5])}{' ...' if len(missing) > 5 else ''}; "
            f"expected all {len(classes)} classes, get the complete by_class tree."
        )
    return TreeIndex(np.frombuffer(digests, np.uint64)[kept], label[kept], is_test[kept])


def describe(source: Path, name: str) -> Character:
    """Class and writer folder of an image from its path; all parts of the path must agree."""
    parts = PurePosixPath(name).parts
    if len(parts) < 3:
        raise DataError(f"{source}: {name} is not <class>/<writer folder>/<image>.png; arrange it like by_class.")
    class_folder, writer_folder, file_name = parts[-3:]
    character = _character_of(class_folder)
    if character is None:
        raise DataError(
            f"{source}: {name} is in folder {class_folder}, expected a class such as 30 (digit 0), 4a or J_u."
        )
    training = re.fullmatch(r"train_([0-9a-fA-F]{2})", writer_folder)
    if training is None and re.fullmatch(r"hsf_\d", writer_folder) is None:
        raise DataError(f"{source}: {name} is in folder {writer_folder}, expected hsf_<digit> or train_<class>.")
    if training is not None and chr(int(training[1], 16)) != character:
        raise DataError(
            f"{source}: {name} is labeled {character!r} by its class folder but {chr(int(training[1], 16))!r} by "
            f"{writer_folder}; move it to the class it belongs to."
        )
    if not file_name.lower().startswith(writer_folder.lower() + "_"):
        raise DataError(
            f"{source}: {name} does not start with {writer_folder}_ like the images of that folder; "
            f"it seems to belong to another class or writer, move or remove it."
        )
    return Character(name, character, writer_folder.lower())


def _character_of(class_folder: str) -> str | None:
    if re.fullmatch(r"[3-7][0-9a-fA-F]", class_folder):
        character = chr(int(class_folder, 16))
        return character if character in _KNOWN else None
    if re.fullmatch(r"[A-Z]_u|[a-z]_l|[0-9]_d", class_folder):
        return class_folder[0]
    return None
