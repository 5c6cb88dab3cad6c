"""From the numbers that people store to float32, in which networks compute.

A point counts by its direction (T1.3), so that a row that float32 could not hold is first multiplied by a power of two:
nothing overflows or vanishes on the way, and the direction stays what it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from data_tools.errors import DataError
from data_tools.rows_on_disk import RowsOnDisk, parts_of

#: Rows whose largest value lies between these are safe to square or sum up in float32.
_ORDINARY = 2.0**-64, 2.0**64


def in_range(X: Any) -> Any:
    """X, dense, CSR or on disk, with rows scaled where float32 needs it; what belongs to the caller is not changed."""
    if X.dtype.kind != "f" or not X.shape[0] or not X.shape[1]:
        return X
    exponents = _exponents(X)
    if isinstance(X, RowsOnDisk):
        return X.divided_by_powers_of_two(exponents) if exponents.any() else X
    if exponents.any():
        X = X.astype(np.result_type(X.dtype, np.float64))  # a copy
        if sparse.issparse(X):
            X.data = np.ldexp(X.data, -np.repeat(exponents, np.diff(X.indptr)))
        else:
            rows = np.flatnonzero(exponents)
            X[rows] = np.ldexp(X[rows], -exponents[rows, None])
    with np.errstate(over="ignore"):
        return X.astype(np.float64) if X.dtype == np.longdouble else X


def _exponents(X: Any) -> Any:
    """What to divide each row by, as a power of two; 0 for ordinary rows."""
    exponents = np.zeros(X.shape[0], dtype=np.int64)
    for part, rows in parts_of(X):
        largest, smallest = (
            side.toarray().ravel() if sparse.issparse(side) else side for side in (rows.max(axis=1), rows.min(axis=1))
        )
        size = np.maximum(largest, -smallest).astype(np.result_type(X.dtype, np.float64))
        too_large_or_small = (size > _ORDINARY[1]) | ((size < _ORDINARY[0]) & (size > 0))
        exponents[part] = np.where(too_large_or_small, np.frexp(size)[1], 0)
    return exponents


def numbers_of(where: object, X: Any) -> Any:
    """Numbers as they were read: float32, or float64 where float32 could not hold a row; bytes stay bytes."""
    if X.dtype.kind not in "uifb":
        raise DataError(f"{where} holds data of type {X.dtype}, expected numbers; convert it.")
    if X.dtype in (np.uint8, np.float32):
        return X
    wide = X.dtype.kind == "f" and X.shape[0] and X.shape[1] and _exponents(X).any()
    with np.errstate(over="ignore", under="ignore"):  # what is infinite, or becomes so, is refused by `Dataset`
        return X.astype(np.result_type(X.dtype, np.float64)) if wide else X.astype(np.float32)


def narrow(where: object, X: Any) -> Any:
    """X as float32, in which every row keeps its direction; bytes stay bytes."""
    X = numbers_of(where, X)
    with np.errstate(over="ignore", under="ignore"):
        return X if X.dtype in (np.uint8, np.float32) else in_range(X).astype(np.float32)
