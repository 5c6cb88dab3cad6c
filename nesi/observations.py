"""The data as the networks see it: validated, dense or sparse, in mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from data_tools.float32 import in_range
from data_tools.rows_on_disk import RowsOnDisk, parts_of
from nesi.errors import NesiError

_CHUNK_VALUES = 4_000_000  # how much of the data is looked at in one go
_BLOCK_BYTES = 1_000_000  # of points in memory that are shuffled as if they were on disk
_LARGEST_WEIGHT = 1e12


class SparseRows(NamedTuple):
    """x = y - 1 of some points (T1.3), only where it is not zero; layout as in scipy's CSR."""

    data: np.ndarray
    columns: np.ndarray
    row_starts: np.ndarray


Points = np.ndarray | SparseRows  # unnormalised rows if dense; normalised without the background if sparse


class Observations:
    """Points to learn from or to classify, T1.1; `normalization` is the A of T1.3."""

    def __init__(self, X: Any, normalization: float) -> None:
        self.on_disk = isinstance(X, RowsOnDisk)
        self.sparse = X.sparse if self.on_disk else sp.issparse(X)
        self._X = _as_matrix(X)
        _check_values(self._X)
        self._X = in_range(self._X)
        self.n_points, self.n_features = self._X.shape
        self.normalization = normalization
        if not normalization > self.n_features:
            raise NesiError(f"The normalization A is {normalization:g}, but {larger_than_the_inputs(self.n_features)}")
        self._totals = self._checked_totals()
        if self.sparse and not self.on_disk:
            self._scaled = self._X.data * np.repeat(self.scale, np.diff(self._X.indptr))
        self._log_gamma: np.ndarray | None = None

    @property
    def inputs(self) -> Any:
        """As they were given, dense or CSR, or on disk."""
        return self._X

    @property
    def scale(self) -> np.ndarray:
        """(A - D) / sum_d x_d of each point: T1.3 without the background."""
        return self._scale_of(slice(None))

    def _scale_of(self, rows: np.ndarray | slice) -> np.ndarray:
        return (self.normalization - self.n_features) / self._totals[rows]

    @property
    def block_starts(self) -> np.ndarray:
        """Where the parts of the data begin that lie together, and where the last one ends."""
        if isinstance(self._X, RowsOnDisk):
            return self._X.block_starts
        values = self._X.nnz // max(self.n_points, 1) if self.sparse else self.n_features
        size = max(1, _BLOCK_BYTES // (max(values, 1) * self._X.dtype.itemsize))
        return np.append(np.arange(0, self.n_points, size), self.n_points)

    @property
    def bytes_per_point(self) -> float:
        """Of the inputs, as they are stored."""
        values = self._X.nnz / self.n_points if self.sparse else self.n_features
        return float(values * self._X.dtype.itemsize)

    def take(self, indices: np.ndarray | slice, dtype: str) -> Points:
        if not self.sparse:
            return np.ascontiguousarray(self._X[indices], dtype=dtype)
        rows = np.arange(self.n_points)[indices] if isinstance(indices, slice) else indices
        if self.on_disk:
            x = self._normalised_without_background(rows)
            return SparseRows(x.data.astype(dtype), x.indices.astype(np.int64), x.indptr.astype(np.int64))
        starts = self._X.indptr[rows].astype(np.int64)
        row_starts = np.concatenate([[0], np.cumsum(self._X.indptr[rows + 1] - starts)])
        entries = np.repeat(starts - row_starts[:-1], np.diff(row_starts)) + np.arange(row_starts[-1])
        columns = self._X.indices[entries].astype(np.int64)
        return SparseRows(self._scaled[entries].astype(dtype), columns, row_starts)

    def moments(self, indices: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of y over the given points (Appendix B.2)."""
        chosen = np.arange(self.n_points) if indices is None else np.asarray(indices)
        return moments_of(*self.sums(chosen), len(chosen))

    def sums(self, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Of x = y - 1 and of its square, over the given points."""
        total, squares = np.zeros(self.n_features), np.zeros(self.n_features)
        for part in self._parts(chosen):
            x = self._normalised_without_background(part)
            total += np.asarray(x.sum(axis=0)).ravel()
            squares += np.asarray((x * x).sum(axis=0)).ravel()
        return total, squares

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
        if self.sparse and not self.on_disk:
            return sp.csr_array((self._scaled, self._X.indices, self._X.indptr), shape=self._X.shape)[part]
        scale = self._scale_of(part)
        if not self.sparse:
            return self._X[part] * scale[:, None]
        x = self._X[part]
        return sp.csr_array((x.data * np.repeat(scale, np.diff(x.indptr)), x.indices, x.indptr), shape=x.shape)

    def _parts(self, indices: np.ndarray) -> Iterator[np.ndarray]:
        size = max(1, _CHUNK_VALUES // max(1, self.n_features))
        if self.sparse:
            values = max(self.bytes_per_point / self._X.dtype.itemsize, 1)
            size = max(1, int(_CHUNK_VALUES // values)) if self.on_disk else len(indices)
        for first in range(0, len(indices), max(1, size)):
            yield indices[first : first + size]

    def _checked_totals(self) -> np.ndarray:
        totals = np.empty(self.n_points)
        for part, rows in parts_of(self._X):
            totals[part] = np.asarray(rows.sum(axis=1, dtype=np.float64)).ravel()
        if not totals.all():
            empty = np.flatnonzero(totals == 0)
            raise NesiError(
                f"Row {empty[0]} of the data is all zero ({len(empty)} such rows), so it can't be normalised (T1.3): "
                "remove these rows."
            )
        return totals


def moments_of(total: np.ndarray, squares: np.ndarray, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of y from sums over x = y - 1; the background only shifts the mean."""
    mean = total / n_points
    return mean + 1, np.sqrt(np.maximum(squares / n_points - mean**2, 0))


def _as_matrix(X: Any) -> Any:
    """A matrix of a type that all libraries below know; what belongs to the user is not changed."""
    if isinstance(X, RowsOnDisk):
        return X
    matrix: Any = sp.csr_array(X) if sp.issparse(X) else np.asarray(X)
    if matrix.dtype == bool:
        matrix = matrix.astype(np.uint8)
    if sp.issparse(matrix) and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _check_values(X: Any) -> None:
    if not np.issubdtype(X.dtype, np.number) or np.issubdtype(X.dtype, np.complexfloating):
        raise NesiError(f"The data has the type {X.dtype}, but must be real numbers >= 0.")
    if np.issubdtype(X.dtype, np.unsignedinteger):
        return
    smallest = 0.0
    for values in _some_values(X):
        if np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise NesiError("The data contains NaN or infinity, but must be finite: replace or remove these values.")
        smallest = min(smallest, values.min(initial=0))
    if smallest < 0:
        raise NesiError(
            f"Negative values in data: the smallest is {smallest:g}, but all inputs must be >= 0; "
            "train with signed='split'."
        )


def _some_values(X: Any) -> Iterator[np.ndarray]:
    """All values, some at a time."""
    for _, rows in parts_of(X):
        values = rows.data if sp.issparse(rows) else rows
        size = max(1, _CHUNK_VALUES // max(1, int(np.prod(values.shape[1:], dtype=np.int64))))
        for first in range(0, len(values), size):
            yield values[first : first + size]


def has_content(X: Any) -> np.ndarray:
    """Which points have any input above zero; the others have no direction, and T1.3 can't normalise them."""
    X = X if sp.issparse(X) or isinstance(X, RowsOnDisk) else np.asarray(X)
    filled = np.zeros(X.shape[0], dtype=bool)
    for part, rows in parts_of(X):
        if sp.issparse(rows):
            some = sp.csr_array(rows)
            filled[part.start + np.repeat(np.arange(some.shape[0]), np.diff(some.indptr))[some.data != 0]] = True
        else:
            filled[part] = rows.any(axis=1)  # NaN as well: it is refused later
    return filled


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
