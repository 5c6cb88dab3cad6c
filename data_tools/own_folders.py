"""Your own folder: one subfolder per class with images or text files, optionally inside train/ and test/.

A subfolder named `unlabeled` holds unlabeled training points.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from data_tools.dataset import Dataset, Matrix, empty_rows
from data_tools.errors import DataError, NoLabels
from data_tools.own_labels import OR_ON_THE_PAGE, OwnOptions, OwnPart, assemble, named_after, without_empty
from data_tools.preprocessing import Preprocessing
from data_tools.tfidf import inverse_document_frequency, tf_idf

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm")
TEXT_ENDINGS = (".txt", ".text", "")
_UNLABELED_FOLDER = "unlabeled"
#: What systems leave in folders; names that start with a dot are passed over anyway.
SYSTEM_FILES = ("thumbs.db", "ehthumbs.db", "desktop.ini")

#: File and class name; None is unlabeled.
Entry = tuple[Path, str | None]


def load_folder(
    path: Path,
    test_fraction: float = 0.2,
    seed: int = 0,
    resize: list[int] | None = None,
    invert: bool = False,
    idf: str = "paper",
    drop_empty: bool = False,
    classes: list[str] | None = None,
) -> Dataset:
    """Grey images (all the same size, or resized to `resize` = [height, width]) or texts (tf-idf of their words)."""
    has_split = (path / "train").is_dir() and (path / "test").is_dir()
    train = _entries(path / "train" if has_split else path, classes is not None)
    test = _entries(path / "test", False) if has_split else None
    options = OwnOptions(test_fraction, seed, drop_empty, classes)
    if are_images(path, [file for file, _ in (*train, *(test or ()))]):
        return _image_dataset(path, train, test, options, resize, invert)
    return _text_dataset(path, train, test, options, idf)


def are_images(path: Path, files: list[Path]) -> bool:
    """Whether the files are images; if not, they are taken for texts."""
    images = [file for file in files if file.suffix.lower() in IMAGE_ENDINGS]
    if images and len(images) != len(files):
        other = next(file for file in files if file.suffix.lower() not in IMAGE_ENDINGS)
        raise DataError(f"{path} mixes images with other files such as {other}; keep only one kind.")
    return bool(images)


def files_in(folder: Path) -> list[Path]:
    """All files in the folder and its subfolders, in sorted order, without hidden ones and those of the system."""
    return [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file()
        and file.name.lower() not in SYSTEM_FILES
        and not any(part.startswith((".", "__MACOSX")) for part in file.relative_to(folder).parts)
    ]


def _entries(folder: Path, may_lack_labels: bool) -> list[Entry]:
    """The files in the class folders; files beside them are unlabeled if labels may be lacking."""
    entries: list[Entry] = []
    for file in files_in(folder):
        inside = file.relative_to(folder).parts
        if len(inside) > 1:
            entries.append((file, None if inside[0] == _UNLABELED_FOLDER else inside[0]))
        elif may_lack_labels:
            entries.append((file, None))
    if not entries and files_in(folder):
        raise NoLabels(f"{folder} has no subfolder with files, expected one per class; {OR_ON_THE_PAGE.format(folder)}")
    if not entries:
        raise DataError(f"{folder} has no subfolder with files; expected one subfolder per class.")
    return entries


def _part(path: Path, X: Matrix, entries: list[Entry]) -> OwnPart:
    labels = ["" if name is None else name for _, name in entries]
    return OwnPart(X, labels, [file.relative_to(path).as_posix() for file, _ in entries])


# ---- images --------------------------------------------------------------------------------------------------------


def _image_dataset(
    path: Path,
    train: list[Entry],
    test: list[Entry] | None,
    options: OwnOptions,
    resize: list[int] | None,
    invert: bool,
) -> Dataset:
    if resize is not None and (len(resize) != 2 or not all(isinstance(n, int) and n > 0 for n in resize)):
        raise DataError(f"resize is {resize!r}, expected two positive integers like [28, 28]; correct it.")
    shape = (resize[0], resize[1]) if resize else _read_image(train[0][0], None, False).shape
    how = Preprocessing(shape[0] * shape[1], shape, resize=bool(resize), invert=bool(invert))
    test_part = None if test is None else _part(path, read_images([file for file, _ in test], how), test)
    part = _part(path, read_images([file for file, _ in train], how), train)
    return assemble(path, part, test_part, options, shape, preprocessing=how)


def read_images(files: list[Path], how: Preprocessing) -> npt.NDArray[np.uint8]:
    return np.stack([_read_image(file, how.image_shape, how.resize, how.invert).reshape(-1) for file in files])


def _read_image(file: Path, shape: tuple[int, int] | None, resize: bool, invert: bool = False) -> Any:
    from PIL import Image

    try:
        with Image.open(file) as opened:
            grey = opened.convert("L")
            if shape is not None and resize:
                grey = grey.resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    except Exception as error:  # Pillow raises many types on damaged files
        raise DataError(f"{file} cannot be read as an image ({type(error).__name__}); fix or remove it.") from error
    pixels = np.asarray(grey, dtype=np.uint8)
    if shape is not None and pixels.shape != shape:
        raise DataError(
            f"{file} is {pixels.shape[0]}x{pixels.shape[1]} pixels, the first image {shape[0]}x{shape[1]}; "
            f"give resize=[height, width] or images of one size."
        )
    return 255 - pixels if invert else pixels


# ---- texts ---------------------------------------------------------------------------------------------------------


def _text_dataset(path: Path, train: list[Entry], test: list[Entry] | None, options: OwnOptions, idf: str) -> Dataset:
    from sklearn.feature_extraction.text import CountVectorizer

    # Count first: the weights may only be learned from the training set of the split.
    texts = [read_text(file) for file, _ in train]
    try:
        vocabulary = CountVectorizer(dtype=np.float32).fit(texts).get_feature_names_out().tolist()
    except ValueError as error:
        raise DataError(f"{path}: the texts contain no words ({error}); check the files.") from error
    test_part = None if test is None else _part(path, count_words([file for file, _ in test], vocabulary), test)
    part = _part(path, count_words([file for file, _ in train], vocabulary), train)
    counted = assemble(path, part, test_part, options)
    train_counts = sparse.csr_matrix(counted.X_train)
    X_train, X_test = tf_idf(train_counts, sparse.csr_matrix(counted.X_test), idf)
    weights = tuple(inverse_document_frequency(train_counts, idf).tolist())
    kept = np.arange(X_train.shape[0])
    y_test, test_names = counted.y_test, counted.test_point_names or ()
    if options.drop_empty:  # weighting can empty a text whose words are in all texts
        kept = np.setdiff1d(kept, empty_rows(X_train))
        test_names = [test_names[row] for row in np.setdiff1d(np.arange(len(y_test)), empty_rows(X_test))]
        X_test, y_test = without_empty(X_test, y_test)
    names = counted.point_names or ()
    return named_after(
        path,
        X_train[kept],
        counted.y_train[kept],
        X_test,
        y_test,
        counted.class_names,
        vocabulary=tuple(vocabulary),
        preprocessing=Preprocessing(len(vocabulary), vocabulary=tuple(vocabulary), idf=weights),
        point_names=tuple(names[row] for row in kept),
        test_point_names=tuple(test_names),
        held_out=counted.held_out,
    )


def count_words(files: list[Path], vocabulary: Sequence[str]) -> sparse.csr_matrix:
    """How often each text has each of the words; other words are passed over."""
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(dtype=np.float32, vocabulary=list(vocabulary))
    return sparse.csr_matrix(counter.transform([read_text(file) for file in files]))


def read_text(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error}); check the file and its permissions.") from error
    if b"\0" in content:
        raise DataError(f"{file} is neither an image nor text; expected class folders with either images or texts.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("latin-1")  # old mail and news
