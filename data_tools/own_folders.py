"""Your own folder: one subfolder per class with images or text files, optionally inside train/ and test/.

A subfolder named `unlabeled` holds unlabeled training points.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from data_tools.dataset import Dataset, Matrix
from data_tools.errors import DataError
from data_tools.own_labels import assemble, named_after, without_empty
from data_tools.tfidf import tf_idf

IMAGE_ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm")
TEXT_ENDINGS = (".txt", ".text", "")
_UNLABELED_FOLDER = "unlabeled"

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
) -> Dataset:
    """Grey images (all the same size, or resized to `resize` = [height, width]) or texts (tf-idf of their words)."""
    has_split = (path / "train").is_dir() and (path / "test").is_dir()
    train = _entries(path / "train" if has_split else path)
    test = _entries(path / "test") if has_split else None
    every_file = [file for file, _ in (*train, *(test or ()))]
    images = [file for file in every_file if file.suffix.lower() in IMAGE_ENDINGS]
    if images and len(images) != len(every_file):
        other = next(file for file in every_file if file.suffix.lower() not in IMAGE_ENDINGS)
        raise DataError(f"{path} mixes images with other files such as {other}; keep only one kind.")
    if images:
        return _image_dataset(path, train, test, test_fraction, seed, resize, invert, drop_empty)
    return _text_dataset(path, train, test, test_fraction, seed, idf, drop_empty)


def _entries(folder: Path) -> list[Entry]:
    """All files in the class folders except hidden ones, in sorted order."""
    classes = sorted(child for child in folder.iterdir() if child.is_dir() and not child.name.startswith("."))
    entries: list[Entry] = [
        (file, None if class_folder.name == _UNLABELED_FOLDER else class_folder.name)
        for class_folder in classes
        for file in sorted(class_folder.rglob("*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    if not entries:
        raise DataError(f"{folder} has no subfolder with files; expected one subfolder per class.")
    return entries


def _labels(entries: list[Entry]) -> list[Any]:
    return ["" if name is None else name for _, name in entries]


def _image_dataset(
    path: Path,
    train: list[Entry],
    test: list[Entry] | None,
    test_fraction: float,
    seed: int,
    resize: list[int] | None,
    invert: bool,
    drop_empty: bool,
) -> Dataset:
    if resize is not None and (len(resize) != 2 or not all(isinstance(n, int) and n > 0 for n in resize)):
        raise DataError(f"resize is {resize!r}, expected two positive integers like [28, 28]; correct it.")
    shape = (resize[0], resize[1]) if resize else None
    shape = shape or _read_image(train[0][0], None, False).shape
    assert shape is not None

    def stack(entries: list[Entry]) -> Matrix:
        return np.stack([_read_image(file, shape, bool(resize), invert).reshape(-1) for file, _ in entries])

    test_part = (stack(test), _labels(test)) if test is not None else None
    return assemble(path, stack(train), _labels(train), test_part, test_fraction, seed, drop_empty, shape)


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


def _text_dataset(
    path: Path,
    train: list[Entry],
    test: list[Entry] | None,
    test_fraction: float,
    seed: int,
    idf: str,
    drop_empty: bool,
) -> Dataset:
    from sklearn.feature_extraction.text import CountVectorizer

    # Count first: the weights may only be learned from the training set of the split.
    texts = [_read_text(file) for file, _ in train]
    test_texts = [_read_text(file) for file, _ in test] if test is not None else []
    try:
        vectorizer = CountVectorizer(dtype=np.float32).fit(texts)
    except ValueError as error:
        raise DataError(f"{path}: the texts contain no words ({error}); check the files.") from error
    test_part = (vectorizer.transform(test_texts), _labels(test)) if test is not None else None
    counted = assemble(
        path, vectorizer.transform(texts), _labels(train), test_part, test_fraction, seed, drop_empty, None
    )
    X_train, X_test = tf_idf(sparse.csr_matrix(counted.X_train), sparse.csr_matrix(counted.X_test), idf)
    y_train, y_test = counted.y_train, counted.y_test
    if drop_empty:  # weighting can empty a text whose words are in all texts
        X_train, y_train = without_empty(X_train, y_train)
        X_test, y_test = without_empty(X_test, y_test)
    vocabulary = tuple(str(word) for word in vectorizer.get_feature_names_out())
    return named_after(path, X_train, y_train, X_test, y_test, counted.class_names, vocabulary=vocabulary)


def _read_text(file: Path) -> str:
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
