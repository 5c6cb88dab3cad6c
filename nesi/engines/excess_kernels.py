"""W for sparse data, kept so that a step costs as much as the entries of its mini-batch, not as much as all of W.

Every input has a background of 1 (T1.3), so that what T1.7 forgets and what it learns from the background cancel but
for the excess over it: W = 1 + V, and V_cd shrinks by the same factor for all d. The factor is kept apart as a scale
a_c, and only inputs that occur in the mini-batch change V. What is left is sum_d log W_cd, to which all inputs
contribute. With q = m V / (1 + m V) for some scale m, and z = a / m - 1,

    sum_d log(1 + a V_d) = sum_d log(1 + m V_d) + sum_d log(1 + q_d z),    log(1 + q z) = q z - (q z)^2 / 2 + ...

so that the sums of the powers of q are enough, and these change only where V does. When a scale is too far from m for
the series, there is one pass over all of V, which resets the scales to 1 and recomputes the sums. m is in the middle of
the scales for which the series is good.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
from numba import njit, prange
from numba.extending import overload
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines import fast_math
from nesi.engines.kernels import FAST_FLAGS, SMALL, parallel_njit, register_kernel

POWERS = 12  # terms of the series
# Largest |z|: the terms that are left out are then below the rounding of the logarithms that are summed up.
_FURTHEST = {"float32": 0.3, "float64": 0.05}
_SMALLEST_EXCESS = -0.5  # with smaller ones, which only weights from elsewhere have, |q| would exceed 1
_MANY_ENTRIES = 1 / 8  # per input: with more, a pass over all of V costs less than to keep the sums of powers
_VALUES_AT_ONCE = 1_000_000  # in float64, when everything is summed up
_PARTS = 16  # ranges of inputs, each summed up by itself: results do not depend on the number of threads

# Divisions that are not checked for zero one by one, so that loops with them are vectorised.
_unchecked_njit = njit(fastmath=FAST_FLAGS, error_model="numpy")


def summed_up(V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sums, one column per unit, and whether the series can be used: with weights far below 1 it can't.

    Row 0 is sum_d log(1 + m V_dc), row j is sum_d q_dc^j; without the series row 0 is sum_d log(1 + V_dc).
    """
    lazy = bool(V.min(initial=0) >= _SMALLEST_EXCESS)
    sums = np.zeros((POWERS + 1, V.shape[1]))
    middle = 1 / (1 + _FURTHEST[str(V.dtype)]) if lazy else 1.0
    size = max(1, _VALUES_AT_ONCE // max(V.shape[1], 1))
    for first in range(0, len(V), size):
        W = 1 + middle * V[first : first + size].astype(np.float64)
        sums[0] += np.log(W).sum(axis=0)
        if lazy:
            q, power = (W - 1) / W, np.ones_like(W)
            for row in sums[1:]:
                power *= q
                row += power.sum(axis=0)
    return sums, np.array([float(lazy)])


def _furthest(V: np.ndarray) -> float:
    """For compiled code."""
    return _FURTHEST[str(V.dtype)]


@overload(_furthest)
def _furthest_of_type(V):  # type: ignore[no-untyped-def]
    limit = _FURTHEST[str(V.dtype)]
    return lambda V: limit


# ---- sum_d y_d log W_cd ------------------------------------------------------------------------------------


class ExcessDrive(Op):
    """(data, columns, row_starts, V, scale, sums, lazy) -> the bottom-up term of T1.5; V has one row per input.

    Accumulated in float64: with 61188 words the sums reach 10^4, and the softmax needs their differences.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.dmatrix()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        data, columns, row_starts, V, scale, *_ = inputs
        log_W = np.log(1 + scale * V.astype(np.float64))
        x = sp.csr_array((data.astype(np.float64), columns, row_starts), shape=(len(row_starts) - 1, len(V)))
        output_storage[0][0] = x @ log_W + log_W.sum(axis=0)


@_unchecked_njit
def _background(scale, sums, lazy, middle):  # type: ignore[no-untyped-def]
    """sum_d log W_cd of every unit."""
    result = sums[0].copy()
    if not lazy[0]:
        return result
    for c in range(scale.shape[0]):
        distance, total = 1 - scale[c] / middle, sums[0, c]
        power = 1.0
        for j in range(1, sums.shape[0]):
            power *= distance
            total -= power * sums[j, c] / j
        result[c] = total
    return result


@_unchecked_njit
def _drive_of_text(data, columns, first, last, V, scale, drive):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        x, row = data[i], V[columns[i]]
        for c in range(drive.shape[0]):
            drive[c] += np.float64(x) * np.float64(fast_math.log(V.dtype.type(1) + scale[c] * row[c]))


@_unchecked_njit
def _drive_from_table(data, columns, first, last, log_W, drive):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        x, row = np.float64(data[i]), log_W[columns[i]]
        for c in range(drive.shape[0]):
            drive[c] += x * np.float64(row[c])


@_unchecked_njit
def _logs_of_inputs(V, scale, log_W, first, last):  # type: ignore[no-untyped-def]
    for d in range(first, last):
        row, log_row = V[d], log_W[d]
        for c in range(V.shape[1]):
            log_row[c] = fast_math.log(V.dtype.type(1) + scale[c] * row[c])


@parallel_njit
def _drive_kernel(data, columns, row_starts, V, scale, sums, lazy):  # type: ignore[no-untyped-def]
    n_points, (D, C) = row_starts.shape[0] - 1, V.shape
    drive = np.empty((n_points, C), dtype=np.float64)
    background = _background(scale, sums, lazy, 1 / (1 + _furthest(V)))
    rounded = scale.astype(V.dtype)
    if data.shape[0] * C < SMALL:
        for n in range(n_points):
            drive[n] = background
            _drive_of_text(data, columns, row_starts[n], row_starts[n + 1], V, rounded, drive[n])
    elif data.shape[0] < D:
        for n in prange(n_points):
            drive[n] = background
            _drive_of_text(data, columns, row_starts[n], row_starts[n + 1], V, rounded, drive[n])
    else:  # every logarithm is needed several times
        log_W = np.empty_like(V)
        for part in prange(_PARTS):
            _logs_of_inputs(V, rounded, log_W, part * D // _PARTS, (part + 1) * D // _PARTS)
        for n in prange(n_points):
            drive[n] = background
            _drive_from_table(data, columns, row_starts[n], row_starts[n + 1], log_W, drive[n])
    return drive


# ---- T1.7 ----------------------------------------------------------------------------------------------------


class ExcessUpdate(Op):
    """(V, scale, sums, excess, lazy, forgotten, gains, data, columns, row_starts) -> T1.7 in place, for the first five.

    W += gains^T (1 + x) - forgotten W, that is (1 - forgotten) V + gains^T x, where forgotten = sum_n gains (as in both
    mini-batch rules). `excess` is sum_d V_cd. `lazy` (one number) says whether the sums of powers can be used.
    """

    __props__ = ()
    destroy_map = {place: [place] for place in range(5)}  # noqa: RUF012

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variable.type() for variable in variables[:5]])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        V, scale, sums, excess, lazy, forgotten, gains, data, columns, row_starts = inputs
        x = sp.csr_array((data, columns, row_starts), shape=(len(row_starts) - 1, len(V)))
        V *= scale * (1 - forgotten)
        V += x.T @ gains
        scale[...] = 1
        sums[...], lazy[...] = summed_up(V)
        excess[...] = V.sum(axis=0, dtype=np.float64)
        for storage, value in zip(output_storage, (V, scale, sums, excess, lazy), strict=True):
            storage[0] = value


@_unchecked_njit
def _learn(V, gains, data, columns, row_starts, first, last):  # type: ignore[no-untyped-def]
    """The inputs from first to last, without the sums."""
    for n in range(gains.shape[0]):
        own = gains[n]
        for i in range(row_starts[n], row_starts[n + 1]):
            if first <= columns[i] < last:
                x, row = data[i], V[columns[i]]
                for c in range(row.shape[0]):
                    row[c] += own[c] * x


@_unchecked_njit
def _learn_with_sums(V, inverse, gains, data, columns, row_starts, first, last, change):  # type: ignore[no-untyped-def]
    """The inputs from first to last; what that adds to the sums is added to `change`."""
    one, m = V.dtype.type(1), V.dtype.type(1 / (1 + _furthest(V)))
    s0, s1, s2, s3, s4, s5, s6 = change[0], change[1], change[2], change[3], change[4], change[5], change[6]
    s7, s8, s9, s10, s11, s12 = change[7], change[8], change[9], change[10], change[11], change[12]
    for n in range(gains.shape[0]):
        own = gains[n]
        for i in range(row_starts[n], row_starts[n + 1]):
            if first <= columns[i] < last:
                x, row = data[i], V[columns[i]]
                for c in range(row.shape[0]):
                    before = m * row[c]
                    row[c] += own[c] * x * inverse[c]
                    after = m * row[c]
                    q, p = after / (one + after), before / (one + before)
                    q2, p2 = q * q, p * p
                    q3, p3, q4, p4 = q2 * q, p2 * p, q2 * q2, p2 * p2
                    q8, p8 = q4 * q4, p4 * p4
                    s0[c] += np.float64(fast_math.log((one + after) / (one + before)))
                    s1[c] += np.float64(q - p)
                    s2[c] += np.float64(q2 - p2)
                    s3[c] += np.float64(q3 - p3)
                    s4[c] += np.float64(q4 - p4)
                    s5[c] += np.float64(q4 * q - p4 * p)
                    s6[c] += np.float64(q4 * q2 - p4 * p2)
                    s7[c] += np.float64(q4 * q3 - p4 * p3)
                    s8[c] += np.float64(q8 - p8)
                    s9[c] += np.float64(q8 * q - p8 * p)
                    s10[c] += np.float64(q8 * q2 - p8 * p2)
                    s11[c] += np.float64(q8 * q3 - p8 * p3)
                    s12[c] += np.float64(q8 * q4 - p8 * p4)


@_unchecked_njit
def _sum_up(V, first, last, sums):  # type: ignore[no-untyped-def]
    """Adds the inputs from first to last to `sums`, and returns the smallest of them."""
    one, m = V.dtype.type(1), V.dtype.type(1 / (1 + _furthest(V)))
    smallest = V.dtype.type(0)
    s0, s1, s2, s3, s4, s5, s6 = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5], sums[6]
    s7, s8, s9, s10, s11, s12 = sums[7], sums[8], sums[9], sums[10], sums[11], sums[12]
    for d in range(first, last):
        row = V[d]
        for c in range(row.shape[0]):
            smallest = min(smallest, row[c])
            value = m * row[c]
            q = value / (one + value)
            q2 = q * q
            q3, q4 = q2 * q, q2 * q2
            q8 = q4 * q4
            s0[c] += np.float64(fast_math.log(one + value))
            s1[c] += np.float64(q)
            s2[c] += np.float64(q2)
            s3[c] += np.float64(q3)
            s4[c] += np.float64(q4)
            s5[c] += np.float64(q4 * q)
            s6[c] += np.float64(q4 * q2)
            s7[c] += np.float64(q4 * q3)
            s8[c] += np.float64(q8)
            s9[c] += np.float64(q8 * q)
            s10[c] += np.float64(q8 * q2)
            s11[c] += np.float64(q8 * q3)
            s12[c] += np.float64(q8 * q4)
    return smallest


@_unchecked_njit
def _sum_up_logs(V, first, last, sums):  # type: ignore[no-untyped-def]
    """The logarithms alone, for steps that go through all of V each time."""
    s0 = sums[0]
    for d in range(first, last):
        row = V[d]
        for c in range(row.shape[0]):
            s0[c] += np.float64(fast_math.log(V.dtype.type(1) + row[c]))


@_unchecked_njit
def _shrink(V, factor, first, last):  # type: ignore[no-untyped-def]
    for d in range(first, last):
        row = V[d]
        for c in range(row.shape[0]):
            row[c] *= factor[c]


@njit
def _too_far(scale, forgotten, furthest):  # type: ignore[no-untyped-def]
    """From the middle, after what is now forgotten."""
    return not (scale * (1 - forgotten)).min() >= (1 - furthest) / (1 + furthest)


@njit
def _excess_after(excess, forgotten, gains, data, row_starts):  # type: ignore[no-untyped-def]
    for c in range(excess.shape[0]):
        excess[c] *= 1 - np.float64(forgotten[c])
    for n in range(gains.shape[0]):
        total = 0.0
        for i in range(row_starts[n], row_starts[n + 1]):
            total += data[i]
        for c in range(excess.shape[0]):
            excess[c] += np.float64(gains[n, c]) * total


@parallel_njit
def _update_kernel(V, scale, sums, excess, lazy, forgotten, gains, data, columns, row_starts):  # type: ignore[no-untyped-def]
    D, C = V.shape
    _excess_after(excess, forgotten, gains, data, row_starts)
    parts = 1 if data.shape[0] * C < SMALL else _PARTS
    many = data.shape[0] > D * _MANY_ENTRIES
    if lazy[0] and not many and not _too_far(scale, forgotten, _furthest(V)):
        for c in range(C):
            scale[c] *= 1 - np.float64(forgotten[c])
        inverse = (1 / scale).astype(V.dtype)
        change = np.zeros((parts, POWERS + 1, C), dtype=np.float64)
        if parts == 1:
            _learn_with_sums(V, inverse, gains, data, columns, row_starts, 0, D, change[0])
        else:
            for part in prange(parts):
                first, last = part * D // parts, (part + 1) * D // parts
                _learn_with_sums(V, inverse, gains, data, columns, row_starts, first, last, change[part])
        for part in range(parts):
            sums += change[part]
        return V, scale, sums, excess, lazy
    factor = (scale * (1 - forgotten.astype(np.float64))).astype(V.dtype)
    new_sums, smallest = np.zeros((_PARTS, POWERS + 1, C), dtype=np.float64), np.zeros(_PARTS, dtype=V.dtype)
    for part in prange(_PARTS):
        first, last = part * D // _PARTS, (part + 1) * D // _PARTS
        _shrink(V, factor, first, last)
        _learn(V, gains, data, columns, row_starts, first, last)
        if many:
            _sum_up_logs(V, first, last, new_sums[part])
        else:
            smallest[part] = _sum_up(V, first, last, new_sums[part])
    scale[:] = 1
    sums[:] = 0
    for part in range(_PARTS):
        sums += new_sums[part]
    lazy[0] = not many and smallest.min() >= _SMALLEST_EXCESS
    if not many and not lazy[0]:
        sums[:] = 0
        for part in range(_PARTS):
            _sum_up_logs(V, part * D // _PARTS, (part + 1) * D // _PARTS, sums)
    return V, scale, sums, excess, lazy


_DRIVE = (_background, _drive_of_text, _drive_from_table, _logs_of_inputs, _drive_kernel)
register_kernel(ExcessDrive, lambda op: _drive_kernel, *_DRIVE)
_UPDATE = (_learn, _learn_with_sums, _sum_up, _sum_up_logs, _shrink, _too_far, _excess_after, _update_kernel)
register_kernel(ExcessUpdate, lambda op: _update_kernel, *_UPDATE)
