"""Some of the classes of a data set, in a chosen order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.dataset import UNLABELED, Dataset
from data_tools.errors import DataError, nearest


def with_classes(dataset: Dataset, classes: list[str] | None) -> Dataset:
    """Only the points of `classes`, numbered in that order; points of other classes are left out."""
    if classes is None:
        return dataset
    if isinstance(classes, str) or not classes or len(set(classes)) != len(classes):
        raise DataError(f"{dataset.name}: classes is {classes!r}, expected a list of different names; correct it.")
    classes = [str(name) for name in classes]  # digits may come as numbers
    for name in classes:
        if name not in dataset.class_names:
            raise DataError(
                f'{dataset.name} has no class "{name}"{nearest(str(name), dataset.class_names)}; correct it.'
            )
    number = np.full(len(dataset.class_names), UNLABELED, dtype=np.int64)
    for new, name in enumerate(classes):
        number[dataset.class_names.index(name)] = new
    X_train, y_train = _chosen(dataset.X_train, dataset.y_train, number)
    X_test, y_test = _chosen(dataset.X_test, dataset.y_test, number)
    return replace(dataset, X_train=X_train, y_train=y_train, X_test=X_test, y_test=y_test, class_names=tuple(classes))


def _chosen(X: Any, y: npt.NDArray[np.int64], number: npt.NDArray[np.int64]) -> tuple[Any, npt.NDArray[np.int64]]:
    new = np.where(y == UNLABELED, UNLABELED, number[y])
    kept = np.flatnonzero((new != UNLABELED) | (y == UNLABELED))
    return X[kept], new[kept]
