"""T1.7 for dense data, as a PyTensor Op with a parallel numba implementation: see `nesi.engines.kernels`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines import fast_math
from nesi.engines.kernels import ROWS, SMALL, parallel_njit, register_kernel, vectorised_njit

_MANY_GAINS = 0.3  # with more than this share of them, BLAS is quicker than picking those that count


class UpdateW(Op):
    """(W, log_W, W_sum, reference, smallest, forgotten, gains, y) -> T1.7 in place, with the logarithm and row sums.

    W += gains^T y - forgotten W. The logarithm is relative to the reference, which is one value per column (see
    `nesi.engines.weights`). What changes a row by less than half of its last digit is left out, so that most rows of a
    trained network need not be touched; `smallest` is a lower bound of the weights.
    """

    __props__: tuple[str, ...] = ()
    destroy_map = {0: [0], 1: [1], 2: [2]}  # noqa: RUF012  (PyTensor reads it from the class)

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variable.type() for variable in variables[:3]])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        W, log_W, W_sum, reference, _, forgotten, gains, y = inputs
        W += gains.T @ y - forgotten[:, None] * W
        np.log(W, out=log_W)
        log_W -= reference
        W_sum[...] = W.sum(axis=1, dtype=np.float64)
        for storage, value in zip(output_storage, (W, log_W, W_sum), strict=True):
            storage[0] = value


@vectorised_njit
def _update_row(row, log_row, reference, forgotten, learned):  # type: ignore[no-untyped-def]
    total = row.dtype.type(0)
    for d in range(row.shape[0]):
        value = row[d] + (learned[d] - forgotten * row[d])
        row[d] = value
        log_row[d] = fast_math.log(value) - reference[d]
        total += value
    return np.float64(total)


@vectorised_njit
def _learn_from_some(learned, gains, points, count, y):  # type: ignore[no-untyped-def]
    """learned = sum_j gains_j y[points_j], four points at a time so that `learned` is read and written less often."""
    learned[:] = 0
    j = 0
    while j + 4 <= count:
        y0, y1, y2, y3 = y[points[j]], y[points[j + 1]], y[points[j + 2]], y[points[j + 3]]
        g0, g1, g2, g3 = gains[j], gains[j + 1], gains[j + 2], gains[j + 3]
        for d in range(learned.shape[0]):
            learned[d] += (g0 * y0[d] + g1 * y1[d]) + (g2 * y2[d] + g3 * y3[d])
        j += 4
    while j < count:
        y0, g0 = y[points[j]], gains[j]
        for d in range(learned.shape[0]):
            learned[d] += g0 * y0[d]
        j += 1


@vectorised_njit
def _update_some_rows(W, log_W, W_sum, reference, forgotten, gains, y, negligible, first, last):  # type: ignore[no-untyped-def]
    """Rows first to last, each from the points that teach it something."""
    n_points, width = gains.shape[0], last - first
    by_row = np.empty((width, n_points), dtype=gains.dtype)  # a cache line of `gains` has several rows' share
    for n in range(n_points):
        for i in range(width):
            by_row[i, n] = gains[n, first + i]
    some, points = np.empty(n_points, dtype=gains.dtype), np.empty(n_points, dtype=np.int64)
    learned = np.empty(W.shape[1], dtype=W.dtype)
    for c in range(first, last):
        if forgotten[c] <= negligible:
            continue
        count = 0
        for n in range(n_points):
            if by_row[c - first, n] * n_points > negligible:
                some[count], points[count] = by_row[c - first, n], n
                count += 1
        _learn_from_some(learned, some, points, count, y)
        W_sum[c] = _update_row(W[c], log_W[c], reference, forgotten[c], learned)


@vectorised_njit
def _share_that_counts(gains, negligible):  # type: ignore[no-untyped-def]
    """The share of gains that are not negligible, judged by a few of the points."""
    step = gains.shape[0] // 16 + 1
    counting, seen = 0, 0
    for n in range(0, gains.shape[0], step):
        for c in range(gains.shape[1]):
            counting += gains[n, c] > negligible
        seen += gains.shape[1]
    return counting / max(seen, 1)


@parallel_njit
def _update_W_kernel(W, log_W, W_sum, reference, smallest, forgotten, gains, y):  # type: ignore[no-untyped-def]
    C = W.shape[0]
    # A smaller gain changes W by less than half of its last digit, so rounding would remove it anyway.
    negligible = gains.dtype.type(np.finfo(gains.dtype).eps / 2 * smallest[0] / max(y.max(), 1))
    if _share_that_counts(gains, negligible / y.shape[0]) > _MANY_GAINS:
        learned = np.dot(gains.T, y)
        if W.size < SMALL:
            for c in range(C):
                W_sum[c] = _update_row(W[c], log_W[c], reference, forgotten[c], learned[c])
        else:
            for c in prange(C):
                W_sum[c] = _update_row(W[c], log_W[c], reference, forgotten[c], learned[c])
    elif W.size < SMALL:
        _update_some_rows(W, log_W, W_sum, reference, forgotten, gains, y, negligible, 0, C)
    else:
        for block in prange((C + ROWS - 1) // ROWS):
            first, last = block * ROWS, min((block + 1) * ROWS, C)
            _update_some_rows(W, log_W, W_sum, reference, forgotten, gains, y, negligible, first, last)
    return W, log_W, W_sum


_UPDATE = (_update_row, _learn_from_some, _update_some_rows, _share_that_counts, _update_W_kernel)
register_kernel(UpdateW, lambda op: _update_W_kernel, *_UPDATE)
