"""Shared by all formats of your own data: map any labels to 0..K-1, split off a test set, convert to float32."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.dataset import UNLABELED, Dataset, Matrix, empty_rows
from data_tools.errors import DataError, NoLabels, counted
from data_tools.float32 import narrow, numbers_of
from data_tools.preprocessing import Preprocessing
from data_tools.signed import sentence, settled_pairs
from data_tools.split import stratified_split

#: What a column of labels is called in tables.
LABEL_NAMES = ("label", "labels", "class", "target")
WEAK_NAME = "y"  # may as well be a coordinate
OR_ON_THE_PAGE = "or label what a network has learned, on a page: nesi label {} --classes a,b,c."


@dataclass(frozen=True)
class OwnOptions:
    """What all formats have in common."""

    test_fraction: float = 0.2
    seed: int = 0
    drop_empty: bool = False
    classes: list[str] | None = None  # their names, if some of them have no labeled point
    signed: str = "no"  # see `data_tools.signed`


@dataclass(frozen=True)
class OwnPart:
    """Points as they were read, with a name for each (a file, or a row)."""

    X: Matrix
    labels: list[Any]
    names: Sequence[str] | None = None


def assemble(
    path: Path,
    train: OwnPart,
    test: OwnPart | None,
    options: OwnOptions,
    image_shape: tuple[int, int] | None = None,
    class_names: tuple[str, ...] | None = None,
    preprocessing: Preprocessing | None = None,
) -> Dataset:
    """A data set named after its file; without a test set, a stratified part becomes the test set."""
    X, labels = train.X, train.labels
    if X.ndim != 2 or X.shape[0] == 0 or X.shape[1] == 0:
        raise DataError(f"{path} holds data of shape {tuple(X.shape)}, expected points x inputs; correct it.")
    if X.shape[0] != len(labels):
        raise DataError(f"{path} holds {X.shape[0]} points but {len(labels)} labels; give one label per point.")
    X = numbers_of(path, X)
    if (pairs := settled_pairs(X, options.signed)) is not None:
        preprocessing = (preprocessing or Preprocessing(int(X.shape[1]))).with_pairs(pairs)
        if options.signed == "auto":
            warnings.warn(f"{path}: {sentence(X)}", stacklevel=5)
        X, image_shape = pairs.of(X), None  # two halves side by side are no image
    X = narrow(path, X)
    words = [label_word(label) for label in labels]
    found = classes_among(path, words, options.classes)
    number = {word: index for index, word in enumerate(found)}
    y = np.array([UNLABELED if word is None else number[word] for word in words], dtype=np.int64)
    rows = np.setdiff1d(np.arange(len(y)), empty_rows(X)) if options.drop_empty else np.arange(len(y))
    if test is None:
        train_rows, test_rows = (rows[part] for part in stratified_split(y[rows], options.test_fraction, options.seed))
        X_test, y_test = X[test_rows], y[test_rows]
        test_names = _names_of(train, test_rows)
    else:
        train_rows = rows
        X_test, y_test = test.X, test_labels(path, [label_word(label) for label in test.labels], number)
        X_test = narrow(path, X_test if pairs is None else pairs.of(numbers_of(path, X_test)))
        test_names = test.names
        if options.drop_empty:
            test_names = _names_of(test, np.setdiff1d(np.arange(len(y_test)), empty_rows(X_test)))
            X_test, y_test = without_empty(X_test, y_test)
    return named_after(
        path,
        X if len(train_rows) == len(y) else X[train_rows],
        y[train_rows],
        X_test,
        y_test,
        _names(path, found, class_names),
        image_shape=None if image_shape is None else shape_of_images(path, image_shape),
        preprocessing=preprocessing,
        point_names=_names_of(train, train_rows),
        test_point_names=test_names,
        held_out=len(y_test) if test is None else None,
    )


def _names_of(part: OwnPart, rows: npt.NDArray[np.int64]) -> Sequence[str] | None:
    return None if part.names is None else tuple(part.names[row] for row in rows)


def named_after(path: Path, *fields: Any, **more_fields: Any) -> Dataset:
    """A data set named after its file only, so that it has the same name, and the same seeds, on every machine."""
    name = path.resolve().name
    try:
        return Dataset(name, *fields, **more_fields)
    except DataError as error:
        raise DataError(str(error).replace(name, str(path), 1)) from error  # but errors give the full path


def label_word(label: Any) -> str | None:
    """A label as text (3 and 3.0 are the same class), or None for unlabeled: empty, NaN, None or -1."""
    if label is None:
        return None
    if isinstance(label, bytes):
        label = label.decode("utf-8", errors="replace")
    text = str(label).strip()
    try:
        value = float(text)
    except ValueError:
        return text or None
    if np.isnan(value) or value == UNLABELED:
        return None
    return str(int(value)) if np.isfinite(value) and value == int(value) else text


def classes_among(path: Path, words: Sequence[str | None], given: list[str] | None) -> list[str]:
    """Only the training labels define the classes, unless their names are given: nothing is known about any other."""
    found = sorted({word for word in words if word is not None}, key=_numbers_first)
    if given is None:
        if not found:
            raise NoLabels(f"{path} has no labeled point; label at least one per class, {OR_ON_THE_PAGE.format(path)}")
        return found
    classes = [label_word(name) for name in given] if isinstance(given, list) else []
    if not classes or None in classes or len(set(classes)) < len(classes):
        raise DataError(f"{path}: classes is {given!r}, expected a list of different names; correct it.")
    unknown = [word for word in found if word not in classes]
    if unknown:
        raise DataError(f"{path}: a point has the label {unknown[0]}, which is not among the given classes; add it.")
    return [str(name) for name in classes]


def _numbers_first(word: str) -> tuple[int, float, str]:
    """9 before 10, and numbers before words."""
    try:
        return (0, float(word), word)
    except ValueError:
        return (1, 0.0, word)


def test_labels(path: Path, words: Sequence[str | None], number: dict[str, int]) -> npt.NDArray[np.int64]:
    unknown = sorted({str(word) for word in words if word not in number})
    if unknown:
        raise DataError(
            f"{path}: the test set has the label {unknown[0]}, which no training point has, or an unlabeled point; "
            f"every test point needs one of {', '.join(list(number)[:10])}."
        )
    return np.array([number[str(word)] for word in words], dtype=np.int64)


def _names(path: Path, found: list[str], class_names: tuple[str, ...] | None) -> tuple[str, ...]:
    if class_names is None:
        return tuple(found)
    if len(class_names) != len(found):
        raise DataError(
            f"{path}: {counted(len(class_names), 'class name')} for {len(found)} classes; give one name per class."
        )
    return class_names


def shape_of_images(path: Path, image_shape: Any) -> tuple[int, int]:
    try:
        height, width = (int(length) for length in image_shape)
    except (TypeError, ValueError) as error:
        raise DataError(f"{path}: image_shape is {image_shape!r}, expected two numbers like [28, 28].") from error
    return height, width


def without_empty(X: Matrix, y: npt.NDArray[np.int64]) -> tuple[Matrix, npt.NDArray[np.int64]]:
    """The points that are not zero everywhere."""
    kept = np.setdiff1d(np.arange(X.shape[0]), empty_rows(X))
    return X[kept], y[kept]
