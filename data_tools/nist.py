"""NIST Special Database 19: handwritten digits (10 classes) and letters (52 classes, case-sensitive)."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_tools.archives import fingerprint, is_archive, member_names, read_members
from data_tools.dataset import Dataset
from data_tools.errors import DataError
from data_tools.image_pipeline import convert_images
from data_tools.nist_images import RAW_SIDE, SIDE, preprocessed_pixels, raw_pixels
from data_tools.nist_tree import DIGITS, LETTERS, VOWELS, Character, index_tree
from data_tools.prepared_cache import Arrays, prepared
from data_tools.split import check_fraction, stratified_split

#: Raise whenever the preprocessing changes: prepared images of another version are then not used.
PREPROCESSING_VERSION = 1
#: Training and test images of the complete tree, as in the paper.
OFFICIAL_COUNTS = {"nist-digits": (344307, 58646), "nist-letters": (387361, 23941)}
VOWELS_FILE = "sd19-vowels-128x128-png.tar.xz"
_BY_CLASS = ("by_class.zip", "by_class.tar", "by_class.tar.gz", "by_class.tar.xz", "by_class")
_CLASSES = {"nist-digits": DIGITS, "nist-letters": LETTERS, "nist-vowels": VOWELS}
_LARGEST_PNG = 1 << 20


def find_source(folder: Path, name: str) -> Path | None:
    """The archive or folder in `folder` that holds the images of `nist-digits`, `nist-letters` or `nist-vowels`."""
    if any((folder / candidate).exists() for candidate in ("30", "41", "A_u")):
        return folder
    candidates = (VOWELS_FILE, *_BY_CLASS) if name == "nist-vowels" else _BY_CLASS
    return next((folder / file for file in candidates if (folder / file).exists()), None)


def load_nist(
    folder: Path,
    name: str,
    raw: bool = False,
    invert: bool = True,
    test_fraction: float = 0.2,
    test_list: str | None = None,
    seed: int = 0,
    on_damage: str = "error",
    workers: int | None = None,
    progress: bool = True,
) -> Dataset:
    """Images of one of the three class sets, 28x28 as in Section 4.4, or 128x128 with `raw`.

    The test set is hsf_4 where the tree has it; else the members named in the text file `test_list`; else a
    stratified `test_fraction` drawn with `seed`. `on_damage="skip"` leaves unreadable images out with a warning.
    """
    source = find_source(folder, name)
    if source is None:
        raise DataError(
            f"{folder} holds none of {', '.join(_BY_CLASS)}; "
            f'run "python -m data_tools fetch nist" or put by_class.zip of NIST SD19 there.'
        )
    if source.is_file() and not is_archive(source):
        raise DataError(f"{source} is neither a folder nor a .zip or .tar; give the by_class tree or an archive of it.")
    if on_damage not in ("error", "skip"):
        raise DataError(f'on_damage is "{on_damage}", expected "error" or "skip"; correct it.')
    check_fraction(test_fraction)
    made_from = {
        "source": fingerprint(source),
        "name": name,
        "raw": bool(raw),
        "invert": bool(invert),
        "split": [float(test_fraction), int(seed), _read_list(test_list)],
        "on_damage": on_damage,
        "version": PREPROCESSING_VERSION,
    }

    def build() -> Arrays:
        images = index_tree(source, member_names(source), _CLASSES[name])
        train, test = _split(source, images, _labels(images, name), test_fraction, test_list, seed)
        # Training images first: the two sets are then parts of one array, and nothing is ever copied.
        ordered = [images[i] for i in (*train, *test)]
        convert = partial(raw_pixels, invert=invert) if raw else preprocessed_pixels
        X = np.zeros((len(ordered), (RAW_SIDE if raw else SIDE) ** 2), dtype=np.uint8)
        bad = convert_images(_encoded(source, ordered), convert, X, workers, progress, label=name)
        kept = _kept_rows(source, ordered, bad, on_damage)
        y, n_train = _labels(ordered, name)[kept], np.count_nonzero(kept < len(train))
        return {"X": _compacted(X, kept), "y": y, "n_train": np.array(n_train)}

    # Raw pictures are 16 KB each: larger than their archive by far, so they are not kept.
    arrays = build() if raw else prepared(name, made_from, build)
    X, y, n_train = arrays["X"], arrays["y"], int(arrays["n_train"])
    _compare_with_paper(name, source, (n_train, len(y) - n_train))
    side = RAW_SIDE if raw else SIDE
    return Dataset(name, X[:n_train], y[:n_train], X[n_train:], y[n_train:], _CLASSES[name], image_shape=(side, side))


def _compare_with_paper(name: str, source: Path, found: tuple[int, int]) -> None:
    """Say so if what looks like the complete data set is not quite that of the paper."""
    expected = OFFICIAL_COUNTS.get(name, found)
    if found != expected and sum(found) > sum(expected) / 2:
        warnings.warn(
            f"{source} has {found[0]} training and {found[1]} test images, the paper {expected[0]} and {expected[1]}",
            stacklevel=3,
        )


def _labels(images: list[Character], name: str) -> npt.NDArray[np.int64]:
    number = {character: index for index, character in enumerate(_CLASSES[name])}
    return np.array([number[image.character] for image in images], dtype=np.int64)


def _encoded(source: Path, images: list[Character]) -> Iterator[tuple[int, bytes]]:
    row_of = {image.member: row for row, image in enumerate(images)}
    seen = 0
    for member, content in read_members(source, row_of.__contains__, _LARGEST_PNG):
        seen += 1
        yield row_of[member], content
    if seen != len(row_of):
        raise DataError(f"{source} gave {seen} of {len(row_of)} images; it holds one twice or changed meanwhile.")


def _kept_rows(source: Path, images: list[Character], bad: dict[int, str], on_damage: str) -> npt.NDArray[np.int64]:
    """Rows of the readable images; an error, or a warning if the user wants to go on without the others."""
    if bad:
        row = min(bad)
        sentence = f"{source}: {images[row].member} {bad[row]}"
        if on_damage == "error":
            raise DataError(
                f"{sentence} ({len(bad)} such image(s)); get the archive again, or leave them out with on_damage=skip."
            )
        warnings.warn(f"{sentence}; {len(bad)} of {len(images)} images are left out", stacklevel=3)
    return np.setdiff1d(np.arange(len(images)), list(bad))


def _compacted(X: npt.NDArray[np.uint8], kept: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Only the kept rows, moved together in place: a copy would double the memory."""
    if len(kept) == len(X):
        return X
    for target, row in enumerate(kept):
        if target != row:
            X[target] = X[row]
    return X[: len(kept)]


def _split(
    source: Path,
    images: list[Character],
    y: npt.NDArray[np.int64],
    test_fraction: float,
    test_list: str | None,
    seed: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    is_test = np.array([image.is_official_test for image in images])
    if test_list is not None:
        listed = set(_read_list(test_list))
        unknown = listed - {image.member for image in images}
        if unknown:
            raise DataError(f"{test_list} names {min(unknown)}, which is not an image of {source}; correct the list.")
        is_test = np.array([image.member in listed for image in images])
    if not is_test.any():
        return stratified_split(y, test_fraction, seed)
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def _read_list(test_list: str | None) -> list[str]:
    if test_list is None:
        return []
    try:
        return [line.strip() for line in Path(test_list).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{test_list} cannot be read ({error}); give a text file with one image path per line."
        ) from error
