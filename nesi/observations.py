"""The data as the networks see it: validated, dense or sparse, in mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from nesi.errors import NesiError

_CHUNK_VALUES = 4_000_000  # how much of the data is looked at in one go
_LARGEST_WEIGHT = 1e12
_ORDINARY = 2.0**-64, 2.0**64  # rows whose largest value lies between these are safe to square or sum up in float32


class SparseRows(NamedTuple):
    """x = y - 1 of some points (T1.3), only where it is not zero; layout as in scipy's CSR."""

    data: np.ndarray
    columns: np.ndarray
    row_starts: np.ndarray


Points = np.ndarray | SparseRows  # unnormalised rows if dense; normalised without the background if sparse


class Observations:
    """Points to learn from or to classify, T1.1; `normalization` is the A of T1.3."""

    def __init__(self, X: Any, normalization: float) -> None:
        self.sparse = sp.issparse(X)
        self._X = _as_matrix(X)
        _check_values(self._X)
        self._X = _in_range(self._X)
        self.n_points, self.n_features = self._X.shape
        self.normalization = normalization
        if not normalization > self.n_features:
            raise NesiError(f"The normalization A is {normalization:g}, but {larger_than_the_inputs(self.n_features)}")
        self._totals = self._checked_totals()
        if self.sparse:
            self._scaled = self._X.data * np.repeat(self.scale, np.diff(self._X.indptr))
        self._log_gamma: np.ndarray | None = None

    @property
    def inputs(self) -> Any:
        """As they were given, dense or CSR."""
        return self._X

    @property
    def scale(self) -> np.ndarray:
        """(A - D) / sum_d x_d of each point: T1.3 without the background."""
        return (self.normalization - self.n_features) / self._totals

    def take(self, indices: np.ndarray | slice, dtype: str) -> Points:
        if not self.sparse:
            return np.ascontiguousarray(self._X[indices], dtype=dtype)
        rows = np.arange(self.n_points)[indices] if isinstance(indices, slice) else indices
        starts = self._X.indptr[rows].astype(np.int64)
        row_starts = np.concatenate([[0], np.cumsum(self._X.indptr[rows + 1] - starts)])
        entries = np.repeat(starts - row_starts[:-1], np.diff(row_starts)) + np.arange(row_starts[-1])
        columns = self._X.indices[entries].astype(np.int64)
        return SparseRows(self._scaled[entries].astype(dtype), columns, row_starts)

    def moments(self, indices: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y over the given points (Appendix B.2)."""
        chosen = np.arange(self.n_points) if indices is None else np.asarray(indices)
        total, squares = np.zeros(self.n_features), np.zeros(self.n_features)
        for part in self._parts(chosen):  # moments of x = y - 1; the background only shifts the mean
            x = self._normalised_without_background(part)
            total += np.asarray(x.sum(axis=0)).ravel()
            squares += np.asarray((x * x).sum(axis=0)).ravel()
        mean = total / len(chosen)
        return mean + 1, np.sqrt(np.maximum(squares / len(chosen) - mean**2, 0))

    def dense_rows(self, indices: np.ndarray, dtype: str) -> np.ndarray:
        """y of some points (T1.3)."""
        y = np.empty((len(indices), self.n_features), dtype)
        done = 0
        for part in self._parts(indices):
            x = self._normalised_without_background(part)
            y[done : done + len(part)] = x.toarray() if self.sparse else x
            done += len(part)
        y += np.asarray(1, dtype)
        return y

    @property
    def log_gamma(self) -> np.ndarray:
        """sum_d log Gamma(y_d + 1) of every point; inputs of zero have y = 1 and contribute nothing."""
        if self._log_gamma is None:
            result = np.empty(self.n_points)
            for part in self._parts(np.arange(self.n_points)):
                x = sp.csr_array(self._normalised_without_background(part))
                x.data = gammaln(x.data + 2)
                result[part] = np.asarray(x.sum(axis=1)).ravel()
            self._log_gamma = result
        return self._log_gamma

    def _normalised_without_background(self, part: np.ndarray) -> Any:
        if self.sparse:
            return sp.csr_array((self._scaled, self._X.indices, self._X.indptr), shape=self._X.shape)[part]
        return self._X[part] * self.scale[part, None]

    def _parts(self, indices: np.ndarray) -> Iterator[np.ndarray]:
        size = len(indices) if self.sparse else max(1, _CHUNK_VALUES // max(1, self.n_features))
        for first in range(0, len(indices), max(1, size)):
            yield indices[first : first + size]

    def _checked_totals(self) -> np.ndarray:
        totals = np.asarray(self._X.sum(axis=1, dtype=np.float64)).ravel()
        if not totals.all():
            empty = np.flatnonzero(totals == 0)
            raise NesiError(
                f"Row {empty[0]} of the data is all zero ({len(empty)} such rows), so it can't be normalised (T1.3): "
                "remove these rows."
            )
        return totals


def _as_matrix(X: Any) -> Any:
    """A matrix of a type that all libraries below know; what belongs to the user is not changed."""
    matrix: Any = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if matrix.dtype == np.longdouble:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
            matrix = matrix.astype(np.float64)
    if sp.issparse(matrix) and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _check_values(X: Any) -> None:
    if not np.issubdtype(X.dtype, np.number) or np.issubdtype(X.dtype, np.complexfloating):
        raise NesiError(f"The data has the type {X.dtype}, but must be real numbers >= 0.")
    values = X.data if sp.issparse(X) else X
    if values.size and np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
        raise NesiError("The data contains NaN or infinity, but must be finite: replace or remove these values.")
    if values.size and values.min() < 0:
        raise NesiError(
            f"Negative values in data: the smallest is {values.min():g}, but all inputs must be >= 0; "
            "train with signed='split'."
        )


def _in_range(X: Any) -> Any:
    """Rows that float32 could not hold, times a power of two.

    T1.3 discards the length of a point, so that this changes nothing but what would overflow or vanish on the way.
    """
    if not np.issubdtype(X.dtype, np.floating) or not X.shape[1]:
        return X
    largest = X.max(axis=1)
    largest = (largest.toarray().ravel() if sp.issparse(largest) else largest).astype(np.float64)
    rows = np.flatnonzero((largest > _ORDINARY[1]) | ((largest < _ORDINARY[0]) & (largest > 0)))
    if not rows.size:
        return X
    exponents = np.zeros(X.shape[0], dtype=np.int64)
    exponents[rows] = np.frexp(largest[rows])[1]
    X = X.astype(np.float64)  # a copy
    if sp.issparse(X):
        X.data = np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr)))
    else:
        X[rows] = np.ldexp(X[rows], -exponents[rows, None])
    return X


def has_content(X: Any) -> np.ndarray:
    """Which points have any input above zero; the others have no direction, and T1.3 can't normalise them."""
    if sp.issparse(X):
        X = sp.csr_array(X)
        filled = np.zeros(X.shape[0], dtype=bool)
        filled[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))[X.data != 0]] = True
        return filled
    return np.asarray(np.asarray(X).any(axis=1))  # NaN as well: it is refused later


def about_empty_points(count: int, n_points: int, learning: bool) -> str:
    """What whoever learns or answers says when some points have no content."""
    answer = "are left out of training" if learning else "get the prior over classes"
    return f"Points that are zero in every input: {count} of {n_points}; they say nothing about classes and {answer}."


def larger_than_the_inputs(n_features: int) -> str:
    """What is wrong with a normalization A that isn't, and what to do: the same words everywhere."""
    return (
        f"must be larger than the number of inputs D = {n_features}, as each of them gets a background of 1: "
        f"try A = {suggested_normalization(n_features):g}."
    )


def suggested_normalization(n_features: int) -> float:
    """15 % above the number of inputs, as the paper found for images, but enough counts to tell few inputs apart."""
    return n_features + max(0.15 * n_features, 100.0)


def checked_weights(given: Any, n_points: int) -> np.ndarray:
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (n_points,):
        raise NesiError(f"The sample weights have the shape {weights.shape}, but there are {n_points} points.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise NesiError("The sample weights must be finite and at least 0, and not all of them 0.")
    if weights.max() > _LARGEST_WEIGHT or weights.sum() < 1 / _LARGEST_WEIGHT:
        raise NesiError(
            f"The largest sample weight is {weights.max():g}, but a weight says how often a point counts: use numbers "
            f"around 1, none above {_LARGEST_WEIGHT:g}, with a sum of at least {1 / _LARGEST_WEIGHT:g}."
        )
    return weights
