"""What T1.7 would do to the units that are active, as a PyTensor Op with a parallel numba implementation.

The same sums as in `nesi.engines.truncated_update`, into rows of their own instead of W.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines.kernels import parallel_njit, register_kernel
from nesi.engines.truncated_update import ADD_ROWS, dense_row, points_of_units


class ProposedRows(Op):
    """(W, epsilon, units, s, *points) -> the rows of W that change, the share of each that is forgotten, and what is
    learned instead.

    By the sequential rule; of W only the shape counts.
    """

    __props__ = ("sparse",)

    def __init__(self, sparse: bool) -> None:
        self.sparse = sparse

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        dtype = variables[0].dtype
        return Apply(self, variables, [pt.lvector(), pt.vector(dtype=dtype), pt.matrix(dtype=dtype)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        W, epsilon, units, s, *points = inputs
        starts, point, activity = points_of_units.py_func(units, s, len(W))
        rows = np.flatnonzero(np.diff(starts))
        forgotten, learned = np.empty(len(rows), W.dtype), np.empty((len(rows), W.shape[1]), W.dtype)
        for i, c in enumerate(rows):
            of_unit = slice(starts[c], starts[c + 1])
            steps = epsilon[point[of_unit]] * activity[of_unit]
            gains = steps * np.append(np.cumprod((1 - steps)[::-1])[::-1][1:], 1)
            forgotten[i] = gains.sum()
            learned[i] = sum(
                gain * dense_row(points, n, W.shape[1]) for gain, n in zip(gains, point[of_unit], strict=True)
            )
        for storage, value in zip(output_storage, (rows, forgotten, learned), strict=True):
            storage[0] = value


def _proposal_kernel(add_rows: Callable[..., Any]) -> Callable[..., Any]:
    @parallel_njit
    def propose(W, epsilon, units, s, *points):  # type: ignore[no-untyped-def]
        starts, point, gain = points_of_units(units, s, W.shape[0])
        count = 0
        for c in range(W.shape[0]):
            count += starts[c] < starts[c + 1]
        rows = np.empty(count, dtype=np.int64)
        count = 0
        for c in range(W.shape[0]):
            if starts[c] < starts[c + 1]:
                rows[count] = c
                count += 1
        forgotten = np.empty(count, dtype=W.dtype)
        learned = np.zeros((count, W.shape[1]), dtype=W.dtype)
        for row in prange(count):
            first, last = starts[rows[row]], starts[rows[row] + 1]
            lost = W.dtype.type(0)
            for k in range(last - first):
                i = last - 1 - k
                gain[i] = epsilon[point[i]] * gain[i] * (W.dtype.type(1) - lost)
                lost += gain[i]
            forgotten[row] = lost
            add_rows(learned[row], lost, point[first:last], gain[first:last], points)
        return rows, forgotten, learned

    return propose


register_kernel(
    ProposedRows,
    lambda op: _proposal_kernel(ADD_ROWS[op.sparse]),
    *ADD_ROWS.values(),
    points_of_units,
    _proposal_kernel,
)
