"""The data as the networks see it: validated, dense or sparse, in mini-batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln

from nesi.errors import NesiError

_CHUNK_VALUES = 4_000_000  # how much of the data is looked at in one go


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
        self.n_points, self.n_features = self._X.shape
        self.normalization = normalization
        if not normalization > self.n_features:
            raise NesiError(
                f"The normalization A is {normalization:g}, but must be larger than the number of inputs "
                f"D = {self.n_features}: try A = {suggested_normalization(self.n_features):g}."
            )
        self._totals = self._checked_totals()
        if self.sparse:
            self._X.sum_duplicates()
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
        if not np.issubdtype(self._X.dtype, np.number) or np.issubdtype(self._X.dtype, np.complexfloating):
            raise NesiError(f"The data has the type {self._X.dtype}, but must be real numbers >= 0.")
        values = self._X.data if self.sparse else self._X
        if values.size and np.issubdtype(values.dtype, np.floating) and not np.isfinite(values).all():
            raise NesiError("The data contains NaN or infinity, but must be finite: replace or remove these values.")
        if values.size and values.min() < 0:
            raise NesiError(
                f"Negative values in data: the smallest is {values.min():g}, but all inputs must be >= 0; "
                "shift or rescale the features."
            )
        totals = np.asarray(self._X.sum(axis=1, dtype=np.float64)).ravel()
        if not totals.all():
            empty = np.flatnonzero(totals == 0)
            raise NesiError(
                f"Row {empty[0]} of the data is all zero ({len(empty)} such rows), so it can't be normalised (T1.3): "
                "remove these rows."
            )
        if not np.isfinite(totals).all():
            raise NesiError("The sum of a row is infinite: divide the data by a large constant first.")
        return totals


def _as_matrix(X: Any) -> Any:
    return sp.csr_array(X) if sp.issparse(X) else np.asarray(X)


def suggested_normalization(n_features: int) -> float:
    """15 % above the number of inputs, as the paper found for images, but enough counts to tell few inputs apart."""
    return n_features + max(0.15 * n_features, 100.0)


def checked_weights(given: Any, n_points: int) -> np.ndarray:
    weights = np.asarray(given, dtype=np.float64)
    if weights.shape != (n_points,):
        raise NesiError(f"The sample weights have the shape {weights.shape}, but there are {n_points} points.")
    if not (np.isfinite(weights).all() and (weights >= 0).all() and weights.any()):
        raise NesiError("The sample weights must be finite and at least 0, and not all of them 0.")
    return weights
