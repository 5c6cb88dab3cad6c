"""Inputs that are no amounts, such as embeddings and measurements, as inputs >= 0: two for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from data_tools.errors import DataError
from data_tools.rows_on_disk import RowsOnDisk, is_sparse, parts_of, positive_and_negative

if TYPE_CHECKING:
    from data_tools.dataset import Matrix

CHOICES = ("auto", "measured", "range", "split", "no")

_FEW_ZEROS = 0.05  # amounts are often zero (background, words that don't occur); measurements hardly ever are
_TAILS = 0.01  # of the values of a column, at either end, may lie outside of its range


@dataclass(frozen=True)
class InputPairs:
    """Two inputs for every column: first all of one kind, then all of the other.

    Without ranges these are the positive and the negative part. A point keeps its direction, and the sign of a value
    decides which of two inputs speaks.

    With ranges they say how far a value is above the lowest and how far below the highest of its column, as shares of
    the range. Columns of any unit and size count the same, and as the two add up to 1, so do all points: nothing is
    lost when they are normalised to a constant sum.
    """

    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def of(self, X: Matrix) -> Matrix:
        """The inputs >= 0 of points as they were given."""
        if self.low is None:
            return in_two_parts(X)
        return X.in_pairs(self._by_ranges) if isinstance(X, RowsOnDisk) else self._by_ranges(X)

    def _by_ranges(self, X: Any) -> np.ndarray:
        X = X.toarray() if is_sparse(X) else X
        low, high = np.array(self.low), np.array(self.high)
        with np.errstate(all="ignore"):  # what is not finite stays so, and is refused with the data
            values = np.asarray(X, dtype=np.float64)
            above = np.clip((values / 2 - low / 2) / (high / 2 - low / 2), 0, 1)  # halves: no difference overflows
            above[~np.isfinite(values)] = np.nan
            pairs = np.concatenate([above, 1 - above], axis=1)
        given = getattr(X, "dtype", np.dtype(np.float64))
        return pairs.astype(np.float32) if given == np.float32 else pairs

    def undone(self, pairs: np.ndarray) -> np.ndarray:
        """Points as they would have been given."""
        first, second = pairs[:, : pairs.shape[1] // 2], pairs[:, pairs.shape[1] // 2 :]
        if self.low is None:
            return first - second
        low, high = np.array(self.low), np.array(self.high)
        total = first + second
        share = np.where(total > 0, first / np.maximum(total, np.finfo(np.float64).tiny), 0.5)
        return np.asarray(low + share * (high - low))


def in_two_parts(X: Matrix) -> Matrix:
    """The positive part of every input, and then the negative part of every input.

    Shifting all values until none is negative would drown the differences between points in what was added.
    """
    return X.in_pairs(positive_and_negative) if isinstance(X, RowsOnDisk) else positive_and_negative(X)


def has_negative(X: Matrix) -> bool:
    kinds = np.dtype(getattr(X, "dtype", float)).kind
    return kinds in "if" and any((values < 0).any() for values in _values(X))


def _values(X: Matrix) -> Iterator[Any]:
    """All of them, without the zeros of sparse rows; some at a time if they are on disk."""
    for _, part in parts_of(X):
        yield part.data if is_sparse(part) else np.asarray(part)


def are_measurements(X: Matrix) -> bool:
    """Whether dense inputs are no amounts of something: there are negative ones, or hardly any is zero.

    Points on disk are not, as tables of measurements that don't fit into memory are rare.
    """
    if is_sparse(X) or isinstance(X, RowsOnDisk):
        return False
    values = np.asarray(X)
    return has_negative(values) or bool(values.size and np.mean(values == 0) < _FEW_ZEROS)


def settled_pairs(X: Matrix, signed: Any) -> InputPairs | None:
    """How training data X becomes inputs >= 0; None if it stays as it is.

    "auto" makes two parts if there are negative values. "measured" looks at the kind of data: ranges for
    measurements, else as "auto".
    """
    if not isinstance(signed, str) or signed not in CHOICES:
        raise DataError(f"signed is {signed!r}, expected one of {', '.join(CHOICES)}; correct it.")
    if signed == "range" or (signed == "measured" and are_measurements(X)):
        if is_sparse(X) or isinstance(X, RowsOnDisk):
            raise DataError("signed is 'range', which is for dense data in memory; use split for other data.")
        return _ranges(np.asarray(X)) if np.isfinite(np.asarray(X)).all() else None
    if signed == "split" or (signed in ("auto", "measured") and has_negative(X)):
        return InputPairs()
    return None


def _ranges(X: np.ndarray) -> InputPairs:
    """Of every column but for its tails, so that a few extreme values don't squeeze all others together."""
    with np.errstate(all="ignore"):
        values = X.astype(np.float64)
        low, high = np.quantile(values, (_TAILS, 1 - _TAILS), axis=0, method="nearest")
        narrow = ~(low < high)
        low[narrow], high[narrow] = values.min(axis=0)[narrow], values.max(axis=0)[narrow]
        constant = ~(low < high)
        high[constant] = low[constant] + np.maximum(np.abs(low[constant]), 1)
    return InputPairs(tuple(low.tolist()), tuple(high.tolist()))


def sentence(X: Matrix) -> str:
    """What is said when data was found to need it."""
    smallest = min(values.min() for values in _values(X) if values.size)
    return (
        f"The data has negative values (the smallest is {smallest:g}): positive and negative parts become inputs "
        f"of their own, {2 * X.shape[1]} in all; signed='split' says so beforehand."
    )
