"""Products with sparse rows (CSR), as PyTensor Ops and as plain expressions.

T1.3 gives y = 1 + x with x sparse, so that no dense row of the vocabulary's width is ever needed:
    sum_d y_d log W_cd = sum_d log W_cd + sum_{d: x_d > 0} x_d log W_cd.
A batch of sparse rows is (data, columns, row_starts) for the Ops, as in scipy; plain expressions, for backends
without the Ops, need the row of every entry instead of the starts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
from numba import prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines import fast_math
from nesi.engines.kernels import SMALL, parallel_njit, register_kernel, vectorised_njit

Expression = Any


class SparseDot(Op):
    """(data, columns, row_starts, M) -> x M^T, rows of x sparse, rows of M dense; accumulated in float64.

    With 61188 words the sums reach 10^4: in float32 their differences, which the softmax needs, would be lost.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.dmatrix()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        data, columns, row_starts, M = inputs
        x = sp.csr_array((data.astype(np.float64), columns, row_starts), shape=(len(row_starts) - 1, M.shape[1]))
        output_storage[0][0] = x @ M.T.astype(np.float64)


@vectorised_njit
def _sparse_dot_column(data, columns, row_starts, row_of_M, result):  # type: ignore[no-untyped-def]
    for n in range(result.shape[0]):
        total = 0.0
        for i in range(row_starts[n], row_starts[n + 1]):
            total += data[i] * row_of_M[columns[i]]
        result[n] = total


@parallel_njit
def _sparse_dot_kernel(data, columns, row_starts, M):  # type: ignore[no-untyped-def]
    result = np.empty((M.shape[0], row_starts.shape[0] - 1), dtype=np.float64)
    if data.shape[0] * M.shape[0] < SMALL:
        for c in range(M.shape[0]):
            _sparse_dot_column(data, columns, row_starts, M[c], result[c])
    else:
        for c in prange(M.shape[0]):  # a row of M stays in the cache while all entries gather from it
            _sparse_dot_column(data, columns, row_starts, M[c], result[c])
    return np.ascontiguousarray(result.T)


class SparseUpdate(Op):
    """(M, forgotten, lift, gains, data, columns, row_starts) -> M += lift + gains^T x - forgotten M, in place.

    `lift` (one value per row of M) is what a constant background under x adds.
    """

    __props__ = ()
    destroy_map = {0: [0]}  # noqa: RUF012

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variables[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        M, forgotten, lift, gains, data, columns, row_starts = inputs
        x = sp.csr_array((data, columns, row_starts), shape=(len(row_starts) - 1, M.shape[1]))
        M += lift[:, None] - forgotten[:, None] * M
        M += (x.T @ gains).T
        output_storage[0][0] = M


@vectorised_njit
def _sparse_update_row(row, forgotten, lift, gains, data, columns, row_starts):  # type: ignore[no-untyped-def]
    if forgotten != 0 or lift != 0:
        for d in range(row.shape[0]):
            row[d] += lift - forgotten * row[d]
    for n in range(gains.shape[0]):
        if gains[n] != 0:
            for i in range(row_starts[n], row_starts[n + 1]):
                row[columns[i]] += gains[n] * data[i]


@parallel_njit
def _sparse_update_kernel(M, forgotten, lift, gains, data, columns, row_starts):  # type: ignore[no-untyped-def]
    if M.size < SMALL:
        for c in range(M.shape[0]):
            _sparse_update_row(M[c], forgotten[c], lift[c], gains[:, c], data, columns, row_starts)
    else:
        for c in prange(M.shape[0]):
            _sparse_update_row(M[c], forgotten[c], lift[c], gains[:, c], data, columns, row_starts)
    return M


@vectorised_njit
def log_and_sum(values, logs, reference):  # type: ignore[no-untyped-def]
    """Sums of short strips in the weights' type, their total in float64: fast, and as exact as needed."""
    total, total_log = 0.0, 0.0
    for first in range(0, values.shape[0], 64):
        strip = strip_log = values.dtype.type(0)
        for d in range(first, min(first + 64, values.shape[0])):
            logs[d] = fast_math.log(values[d]) - reference[d]
            strip += values[d]
            strip_log += logs[d]
        total += strip
        total_log += strip_log
    return total, total_log


register_kernel(SparseDot, lambda op: _sparse_dot_kernel, _sparse_dot_column, _sparse_dot_kernel)
register_kernel(SparseUpdate, lambda op: _sparse_update_kernel, _sparse_update_row, _sparse_update_kernel)


# ---- the same as plain expressions -----------------------------------------------------------------------


def sparse_dot(M: Expression, start: Expression, data: Expression, columns: Expression, rows: Expression) -> Expression:
    """start + x M^T, where `start` (points x rows of M) holds what the dense part contributes."""
    return pt.inc_subtensor(start[rows], data[:, None] * M.T[columns])


def sparse_update(
    M: Expression,
    forgotten: Expression,
    lift: Expression,
    gains: Expression,
    data: Expression,
    columns: Expression,
    rows: Expression,
) -> Expression:
    """M + lift + gains^T x - forgotten M."""
    dense_part = M + (lift[:, None] - forgotten[:, None] * M)
    return pt.inc_subtensor(dense_part.T[columns], data[:, None] * gains[rows]).T
