"""T1.7 for the units that were active, as a PyTensor Op with a parallel numba implementation.

`perform` is the same in plain Python, slow and simple, for checking. Points are dense rows y, or the three arrays of
sparse rows (data, columns, row_starts) of x = y - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit, prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines.kernels import parallel_njit, register_kernel, vectorised_njit
from nesi.engines.sparse_kernels import log_and_sum

_NEGLIGIBLE = 1e-6  # activities below this change no weight by more than float32 can show


class UpdateActiveRows(Op):
    """(W, log_W, W_sum, log_W_sum, reference, epsilon, units, s, *points) -> T1.7 in place, for the active units."""

    __props__ = ("rule", "sparse")
    destroy_map = {0: [0], 1: [1], 2: [2], 3: [3]}  # noqa: RUF012

    def __init__(self, rule: str, sparse: bool) -> None:
        self.rule, self.sparse = rule, sparse

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variable.type() for variable in variables[:4]])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        W, log_W, W_sum, log_W_sum, reference, epsilon, units, s, *points = inputs
        for c in np.unique(units):
            n_active, rank = np.nonzero(units == c)
            steps = epsilon[n_active] * s[n_active, rank]
            if self.rule == "summed":
                gains = steps
            else:
                after = np.append(np.cumprod((1 - steps)[::-1])[::-1][1:], 1)
                gains = steps * after
            learned = sum(gain * dense_row(points, n, W.shape[1]) for gain, n in zip(gains, n_active, strict=True))
            W[c] += learned - gains.sum() * W[c]
            log_W[c] = np.log(W[c]) - reference
            W_sum[c], log_W_sum[c] = W[c].sum(dtype=np.float64), log_W[c].sum(dtype=np.float64)
        for storage, value in zip(output_storage, (W, log_W, W_sum, log_W_sum), strict=True):
            storage[0] = value


def dense_row(points: Any, n: Any, D: int) -> np.ndarray:
    if len(points) == 1:
        return points[0][n]
    data, columns, row_starts = points
    row = np.ones(D, dtype=data.dtype)
    entries = slice(row_starts[n], row_starts[n + 1])
    row[columns[entries]] += data[entries]
    return row


@njit
def points_of_units(units, s, C):  # type: ignore[no-untyped-def]
    """The points that activate each unit, in their order, and how much: counting sort."""
    starts = np.zeros(C + 1, dtype=np.int64)
    for n in range(units.shape[0]):
        for j in range(units.shape[1]):
            if s[n, j] > _NEGLIGIBLE:
                starts[units[n, j] + 1] += 1
    for c in range(C):
        starts[c + 1] += starts[c]
    next_place = starts[:-1].copy()
    point = np.empty(starts[C], dtype=np.int64)
    activity = np.empty(starts[C], dtype=s.dtype)
    for n in range(units.shape[0]):
        for j in range(units.shape[1]):
            if s[n, j] > _NEGLIGIBLE:
                c = units[n, j]
                point[next_place[c]], activity[next_place[c]] = n, s[n, j]
                next_place[c] += 1
    return starts, point, activity


@vectorised_njit
def _add_dense_rows(row, forgotten, point, gain, points):  # type: ignore[no-untyped-def]
    """row += sum_i gain_i y_i - forgotten row, four points at a time so that the row is read and written less often."""
    y = points[0]
    lost, i = forgotten, 0
    while i < point.shape[0]:
        left = point.shape[0] - i
        a, b = point[i], point[i + min(1, left - 1)]
        if left >= 4:
            c, d = point[i + 2], point[i + 3]
            for k in range(row.shape[0]):
                first = gain[i] * y[a, k] + gain[i + 1] * y[b, k] - lost * row[k]
                row[k] += first + gain[i + 2] * y[c, k] + gain[i + 3] * y[d, k]
            i += 4
        elif left >= 2:
            for k in range(row.shape[0]):
                row[k] += gain[i] * y[a, k] + gain[i + 1] * y[b, k] - lost * row[k]
            i += 2
        else:
            for k in range(row.shape[0]):
                row[k] += gain[i] * y[a, k] - lost * row[k]
            i += 1
        lost = row.dtype.type(0)


@vectorised_njit
def _add_sparse_rows(row, forgotten, point, gain, points):  # type: ignore[no-untyped-def]
    """row += sum_i gain_i (1 + x_i) - forgotten row; what is forgotten is the sum of the gains."""
    data, columns, row_starts = points
    for k in range(row.shape[0]):
        row[k] += forgotten - forgotten * row[k]
    for i in range(point.shape[0]):
        for j in range(np.uint64(row_starts[point[i]]), np.uint64(row_starts[point[i] + 1])):
            row[columns[j]] += gain[i] * data[j]


def _update_kernel(sequential: bool, add_rows: Callable[..., Any]) -> Callable[..., Any]:
    @parallel_njit
    def update(W, log_W, W_sum, log_W_sum, reference, epsilon, units, s, *points):  # type: ignore[no-untyped-def]
        starts, point, gain = points_of_units(units, s, W.shape[0])
        for c in prange(W.shape[0]):
            first, last = starts[c], starts[c + 1]
            if first < last:
                forgotten = W.dtype.type(0)
                for k in range(last - first):
                    i = last - 1 - k
                    step = epsilon[point[i]] * gain[i]
                    gain[i] = step * (W.dtype.type(1) - forgotten) if sequential else step
                    forgotten += gain[i]
                add_rows(W[c], forgotten, point[first:last], gain[first:last], points)
                W_sum[c], log_W_sum[c] = log_and_sum(W[c], log_W[c], reference)
        return W, log_W, W_sum, log_W_sum

    return update


ADD_ROWS = {False: _add_dense_rows, True: _add_sparse_rows}
register_kernel(
    UpdateActiveRows,
    lambda op: _update_kernel(op.rule == "sequential", ADD_ROWS[op.sparse]),
    *ADD_ROWS.values(),
    points_of_units,
    log_and_sum,
    _update_kernel,
)
