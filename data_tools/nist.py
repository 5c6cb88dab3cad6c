"""NIST Special Database 19: handwritten digits (10 classes) and letters (52 classes, case-sensitive)."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from data_tools.archives import fingerprint, is_archive, member_names, read_members
from data_tools.dataset import Dataset
from data_tools.errors import DataError, counted
from data_tools.image_pipeline import convert_images
from data_tools.name_rows import NameRows, digest_of, digests_of
from data_tools.nist_images import RAW_SIDE, SIDE, preprocessed_pixels, raw_pixels
from data_tools.nist_tree import DIGITS, LETTERS, VOWELS, TreeIndex, index_tree
from data_tools.prepared_cache import Arrays, prepared
from data_tools.preprocessing import Preprocessing
from data_tools.split import check_fraction, stratified_split

#: Increase whenever the preprocessing changes, so that images prepared by another version are not used.
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

    The test set is the images listed in the text file `test_list`, if given; else hsf_4, if the tree has it; else a
    stratified `test_fraction` drawn with `seed`. `on_damage="skip"` leaves out unreadable images with a warning.
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
        "split": [float(test_fraction), int(seed), _list_key(test_list)],
        "on_damage": on_damage,
        "version": PREPROCESSING_VERSION,
    }

    def build() -> Arrays:
        rows, y, n_train = _planned(source, name, test_fraction, test_list, seed)
        convert = partial(raw_pixels, invert=invert) if raw else preprocessed_pixels
        X = np.zeros((len(rows), (RAW_SIDE if raw else SIDE) ** 2), dtype=np.uint8)
        bad = convert_images(_encoded(source, rows), convert, X, workers, progress, label=name)
        if bad:
            _report_damage(source, rows, bad, on_damage)
            kept = np.ones(len(rows), dtype=np.bool_)
            kept[list(bad)] = False
            X, y, n_train = _compacted(X, kept), y[kept], int(np.count_nonzero(kept[:n_train]))
        return {"X": X, "y": y, "n_train": np.array(n_train)}

    # Raw images are 16 KB each: far larger than their archive, so they are not cached.
    arrays = build() if raw else prepared(name, made_from, build)
    X, y, n_train = arrays["X"], arrays["y"], int(arrays["n_train"])
    _compare_with_paper(name, source, (n_train, len(y) - n_train))
    side = RAW_SIDE if raw else SIDE
    how = Preprocessing(side**2, (side, side), decoder="nist raw" if raw else "nist", invert=bool(raw and invert))
    parts = X[:n_train], y[:n_train], X[n_train:], y[n_train:]
    return Dataset(name, *parts, _CLASSES[name], image_shape=(side, side), preprocessing=how)


def _compare_with_paper(name: str, source: Path, found: tuple[int, int]) -> None:
    """Warn if what looks like the complete data set differs from the paper's."""
    expected = OFFICIAL_COUNTS.get(name, found)
    if found != expected and sum(found) > sum(expected) / 2:
        warnings.warn(
            f"{source} has {found[0]} training and {found[1]} test images, "
            f"the paper has {expected[0]} and {expected[1]}",
            stacklevel=3,
        )


def _planned(
    source: Path, name: str, test_fraction: float, test_list: str | None, seed: int
) -> tuple[NameRows, npt.NDArray[np.int64], int]:
    """The row and the label of every image, and the number of training images.

    Training images come first: then both sets are parts of one array, and nothing is copied.
    """
    index = index_tree(source, member_names(source), _CLASSES[name])
    is_test = _test_images(source, index, test_fraction, test_list, seed)
    n_train = len(index) - int(np.count_nonzero(is_test))
    row_of = np.empty(len(index), dtype=np.int32)
    row_of[~is_test] = np.arange(n_train, dtype=np.int32)
    row_of[is_test] = np.arange(n_train, len(index), dtype=np.int32)
    rows = NameRows(index.digests, row_of)
    twice = rows.repeated()
    if twice is not None:
        raise DataError(
            f"{source} holds {_name_of(source, rows, twice)} twice; download it again or remove one of them."
        )
    y = np.empty(len(index), dtype=np.int64)
    y[row_of] = index.labels
    return rows, y, n_train


def _encoded(source: Path, rows: NameRows) -> Iterator[tuple[int, bytes]]:
    seen = 0
    for member, content in read_members(source, rows.__contains__, _LARGEST_PNG):
        row = rows.find(member)
        assert row is not None  # read_members only yields names in `rows`
        seen += 1
        yield row, content
    if seen != len(rows):
        raise DataError(f"{source} gave {seen} of {len(rows)} images; it changed while being read, try again.")


def _name_of(source: Path, rows: NameRows, row: int) -> str:
    """Reading the names again is cheaper than keeping all of them in memory for a message."""
    digest = rows.digest(row)
    return next((member for member in member_names(source) if digest_of(member) == digest), f"image {row}")


def _report_damage(source: Path, rows: NameRows, bad: dict[int, str], on_damage: str) -> None:
    """Raise an error, or warn if the user wants to continue without the damaged images."""
    row = min(bad)
    sentence = f"{source}: {_name_of(source, rows, row)} {bad[row]}"
    if on_damage == "error":
        raise DataError(
            f"{sentence} ({counted(len(bad), 'bad image')}); download the archive again, or use on_damage=skip."
        )
    warnings.warn(f"{sentence}; leaving out {len(bad)} of {counted(len(rows), 'image')}", stacklevel=3)


def _compacted(X: npt.NDArray[np.uint8], kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """Only the kept rows, compacted in place: a copy would double the memory."""
    target = 0
    for row in np.flatnonzero(kept):
        if target != row:
            X[target] = X[row]
        target += 1
    return X[:target]


def _test_images(
    source: Path, index: TreeIndex, test_fraction: float, test_list: str | None, seed: int
) -> npt.NDArray[np.bool_]:
    is_test = index.is_test
    if test_list is not None:
        listed = sorted(set(_read_list(test_list)))
        digests = digests_of(listed)
        known = np.isin(digests, index.digests)
        if not known.all():
            unknown = listed[int(np.argmin(known))]
            raise DataError(f"{test_list} lists {unknown}, which is not an image of {source}; correct the list.")
        is_test = np.isin(index.digests, digests)
    if not is_test.any():
        _, drawn = stratified_split(index.labels.astype(np.int64), test_fraction, seed)
        is_test = np.zeros(len(index), dtype=np.bool_)
        is_test[drawn] = True
    return is_test


def _list_key(test_list: str | None) -> list[str]:
    """A hash of the list for the cache key; the list itself may hold a hundred thousand names."""
    names = _read_list(test_list)
    return [hashlib.sha256("\n".join(names).encode()).hexdigest()] if names else []


def _read_list(test_list: str | None) -> list[str]:
    if test_list is None:
        return []
    try:
        return [line.strip() for line in Path(test_list).read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"{test_list} cannot be read ({error}); give a text file with one image path per line."
        ) from error
