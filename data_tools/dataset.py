"""What every loader returns: non-negative data, integer labels and class names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError, counted
from data_tools.preprocessing import Preprocessing
from data_tools.rows_on_disk import parts_of

#: Label of a point whose class is not known. Only training points may have it, and only in a user's own data.
UNLABELED = -1

#: A dense array (uint8 or float32), a scipy CSR matrix (float32), or `RowsOnDisk` of any type.
Matrix = Any


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set; `y` runs from 0 to `len(class_names) - 1`, rows of `X` are points."""

    name: str
    X_train: Matrix
    y_train: npt.NDArray[np.int64]
    X_test: Matrix
    y_test: npt.NDArray[np.int64]
    class_names: tuple[str, ...]
    image_shape: tuple[int, int] | None = None
    vocabulary: Sequence[str] | None = None
    preprocessing: Preprocessing | None = None
    point_names: Sequence[str] | None = None  # of the training points: the file or the row of each
    test_point_names: Sequence[str] | None = None
    held_out: int | None = None  # labeled points that were taken out of the training data to make a test set

    def __post_init__(self) -> None:
        n_inputs = self.X_train.shape[1] if self.X_train.ndim == 2 else -1
        for part, X, y in (("training", self.X_train, self.y_train), ("test", self.X_test, self.y_test)):
            if X.ndim != 2 or X.shape[1] != n_inputs:
                raise DataError(
                    f"{self.name}: the {part} data has shape {tuple(X.shape)}, expected two axes (points, inputs) "
                    f"and as many inputs as the training data; reshape the arrays."
                )
            if y.shape != (X.shape[0],):
                raise DataError(
                    f"{self.name}: {X.shape[0]} {part} points but labels of shape {y.shape}; give one label per point."
                )
            check_matrix(self.name, part, X)
            check_labels(self.name, part, y, len(self.class_names))
        if len(self.y_train) == 0:
            raise DataError(f"{self.name}: there is no training point; give at least one.")
        if self.image_shape is not None and self.image_shape[0] * self.image_shape[1] != n_inputs:
            raise DataError(
                f"{self.name}: image shape {self.image_shape} does not hold {n_inputs} pixels; correct image_shape."
            )
        if self.vocabulary is not None and len(self.vocabulary) != n_inputs:
            raise DataError(
                f"{self.name}: {len(self.vocabulary)} words for {n_inputs} inputs; give one word per input."
            )

    def __repr__(self) -> str:
        return (
            f"<Dataset {self.name}: {self.X_train.shape[0]} training and {self.X_test.shape[0]} test points, "
            f"{counted(self.X_train.shape[1], 'input')}, {counted(len(self.class_names), 'class', 'classes')}>"
        )


def check_matrix(name: str, part: str, X: Matrix) -> None:
    """Finite and non-negative. Rows of zeros are let through: whoever learns or answers says what becomes of them."""
    if X.dtype.kind not in "uif":
        raise DataError(f"{name}: the {part} data has type {X.dtype}, expected numbers; convert it.")
    for _, rows in parts_of(X) if X.dtype.kind != "u" else ():
        values = rows if isinstance(rows, np.ndarray) else rows.data
        if not values.size:
            continue
        if not np.isfinite(values).all():
            raise DataError(f"{name}: the {part} data has NaN or infinite values; replace them before loading.")
        if values.min() < 0:
            raise DataError(
                f"{name}: the {part} data has negative values (smallest {values.min():g}), expected X >= 0; "
                f"train with signed: split."
            )


def empty_rows(X: Matrix) -> npt.NDArray[np.int64]:
    """Indices of rows that are zero everywhere."""
    filled = np.zeros(X.shape[0], dtype=bool)
    for part, rows in parts_of(X):
        if isinstance(rows, np.ndarray):
            filled[part] = rows.any(axis=1)
        else:
            filled[part.start + np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))[rows.data != 0]] = True
    return np.flatnonzero(~filled)


def check_labels(name: str, part: str, y: npt.NDArray[np.int64], n_classes: int) -> None:
    if y.dtype != np.int64:
        raise DataError(f"{name}: {part} labels have type {y.dtype}, expected int64; convert them.")
    lowest = UNLABELED if part == "training" else 0
    if y.size and (y.min() < lowest or y.max() >= n_classes):
        raise DataError(
            f"{name}: {part} labels run from {y.min()} to {y.max()}, expected {lowest} to {n_classes - 1}; "
            f"correct the labels or the list of classes."
        )
