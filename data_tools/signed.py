"""Inputs with a sign, such as embeddings and principal components, as inputs >= 0."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from data_tools.dataset import Matrix
from data_tools.errors import DataError

CHOICES = ("auto", "split", "no")


def in_two_parts(X: Matrix) -> Matrix:
    """The positive part of every input, and then the negative part of every input.

    A point keeps its direction, and the sign of an input decides which of two inputs speaks. Shifting all values until
    none is negative would drown the differences between points in what was added.
    """
    if sparse.issparse(X):
        X = X.tocsr()
        return sparse.hstack([X.maximum(0), (-X).maximum(0)], format="csr")
    X = np.asarray(X)
    zero = np.zeros((), X.dtype)
    return np.concatenate([np.maximum(X, zero), np.maximum(-X, zero)], axis=1)


def has_negative(X: Matrix) -> bool:
    values = X.data if sparse.issparse(X) else np.asarray(X)
    return bool(values.size and values.dtype.kind in "if" and (values < 0).any())


def splits(X: Matrix, signed: Any) -> bool:
    """Whether training data X is to be split: always, never, or if it has negative values."""
    if signed not in CHOICES:
        raise DataError(f"signed is {signed!r}, expected one of {', '.join(CHOICES)}; correct it.")
    return signed == "split" or (signed == "auto" and has_negative(X))


def sentence(X: Matrix) -> str:
    """What is said when data was found to need it."""
    values = X.data if sparse.issparse(X) else np.asarray(X)
    return (
        f"The data has negative values (the smallest is {values.min():g}): positive and negative parts become inputs "
        f"of their own, {2 * X.shape[1]} in all; signed='split' says so beforehand."
    )
