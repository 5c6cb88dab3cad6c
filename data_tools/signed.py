"""Inputs with a sign, such as embeddings and principal components, as inputs >= 0."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse

from data_tools.dataset import Matrix
from data_tools.errors import DataError
from data_tools.rows_on_disk import RowsOnDisk, parts_of, positive_and_negative

CHOICES = ("auto", "split", "no")


def in_two_parts(X: Matrix) -> Matrix:
    """The positive part of every input, and then the negative part of every input.

    A point keeps its direction, and the sign of an input decides which of two inputs speaks. Shifting all values until
    none is negative would drown the differences between points in what was added.
    """
    return X.in_two_parts() if isinstance(X, RowsOnDisk) else positive_and_negative(X)


def has_negative(X: Matrix) -> bool:
    kinds = np.dtype(getattr(X, "dtype", float)).kind
    return kinds in "if" and any((values < 0).any() for values in _values(X))


def _values(X: Matrix) -> Iterator[Any]:
    """All of them, without the zeros of sparse rows; some at a time if they are on disk."""
    for _, part in parts_of(X):
        yield part.data if sparse.issparse(part) else np.asarray(part)


def splits(X: Matrix, signed: Any) -> bool:
    """Whether training data X is to be split: always, never, or if it has negative values."""
    if signed not in CHOICES:
        raise DataError(f"signed is {signed!r}, expected one of {', '.join(CHOICES)}; correct it.")
    return signed == "split" or (signed == "auto" and has_negative(X))


def sentence(X: Matrix) -> str:
    """What is said when data was found to need it."""
    smallest = min(values.min() for values in _values(X) if values.size)
    return (
        f"The data has negative values (the smallest is {smallest:g}): positive and negative parts become inputs "
        f"of their own, {2 * X.shape[1]} in all; signed='split' says so beforehand."
    )
