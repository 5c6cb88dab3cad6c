"""The costly steps of Table 1 as PyTensor Ops with a parallel numba implementation.

Besides the two matrix products, a training step reads and writes three large arrays: the activities (points x C),
the weights and their logarithm (C x D). Plain graphs pass over them a dozen times on one core; these Ops pass
once, on all cores. `perform` says the same in NumPy, for checking and for other backends.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import get_num_threads, njit, prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Dot

from nesi.engines import fast_math

# Starts numba's thread pool. Compiled graphs from the cache on disk call into it, but do not start it themselves if
# their parallel parts came from the cache when they were compiled: they would call a function that is not there.
get_num_threads()

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
FAST_FLAGS = {"contract", "nsz", "reassoc", "arcp"}
_BLOCK = 512  # columns per task: a strip of activities that stays in the first-level cache
ROWS = 16  # rows of W per task: the gains of that many units share a cache line
_FEW_POINTS = 512  # with more of them, BLAS is quicker
parallel_njit = njit(parallel=True, fastmath=FAST_FLAGS)  # cached on disk as part of the graphs that use it
vectorised_njit = njit(fastmath=FAST_FLAGS)
SMALL = 200_000  # with fewer values than this, waking up other threads costs more than they help


def register_kernel(op_type: type[Op], choose: Callable[[Op], Callable[..., Any]], *written_in: Any) -> None:
    """Let compiled graphs run `choose(op)` for the Op; a change of the source makes code cached on disk invalid."""
    source = "".join(inspect.getsource(getattr(part, "py_func", part)) for part in (*written_in, fast_math))
    version = int(hashlib.sha256(source.encode()).hexdigest()[:12], 16)

    @register_funcify_default_op_cache_key(op_type)
    def _funcify(op: Op, node: Apply, **kwargs: Any) -> tuple[Callable[..., Any], int]:
        return choose(op), version


# ---- products with a transposed matrix -------------------------------------------------------------------


class Product(Op):
    """(a, b) -> a b^T or a^T b, whichever of the two is `transposed`.

    PyTensor's own transposition hides from numba that the matrix is contiguous, and BLAS then gets a copy of it, which
    costs more than the product of a small mini-batch.
    """

    __props__ = ("transposed",)

    def __init__(self, transposed: str) -> None:
        self.transposed = transposed

    def make_node(self, a: Any, b: Any) -> Apply:
        a, b = pt.as_tensor_variable(a), pt.as_tensor_variable(b)
        return Apply(self, [a, b], [pt.matrix(dtype=a.dtype)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        a, b = inputs
        output_storage[0][0] = a @ b.T if self.transposed == "second" else a.T @ b


@njit
def _times_transposed(a, b):  # type: ignore[no-untyped-def]
    return np.dot(a, b.T)


@njit
def _transposed_times(a, b):  # type: ignore[no-untyped-def]
    return np.dot(a.T, b)


def _transposed(variable: Any) -> Any | None:
    """The matrix that `variable` is the transpose of."""
    node = variable.owner
    is_transpose = node is not None and isinstance(node.op, DimShuffle) and tuple(node.op.new_order) == (1, 0)
    return node.inputs[0] if is_transpose else None


@node_rewriter([Dot])
def transposed_products(fgraph: Any, node: Apply) -> list[Any] | None:
    """Let the equations say a @ b.T, and use `Product` for it."""
    a, b = node.inputs
    if a.ndim != 2 or b.ndim != 2 or a.dtype != b.dtype:
        return None
    if (matrix := _transposed(b)) is not None:
        return [Product("second")(a, matrix)]
    if (matrix := _transposed(a)) is not None:
        return [Product("first")(matrix, b)]
    return None


class MiniBatchDrive(Op):
    """(y, log_W) -> y log_W^T, the bottom-up term of T1.5, for as few points as a training step has.

    Every weight is read once, and nothing is copied. A tile of four units and three points is as much as the registers
    of most machines hold.
    """

    __props__ = ()

    def make_node(self, y: Any, log_W: Any) -> Apply:
        y, log_W = pt.as_tensor_variable(y), pt.as_tensor_variable(log_W)
        return Apply(self, [y, log_W], [pt.matrix(dtype=y.dtype)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        y, log_W = inputs
        output_storage[0][0] = y @ log_W.T


@vectorised_njit
def _drive_of_tile(y, log_W, drive, n, c):  # type: ignore[no-untyped-def]
    """Points n to n + 2, units c to c + 3."""
    y0, y1, y2 = y[n], y[n + 1], y[n + 2]
    w0, w1, w2, w3 = log_W[c], log_W[c + 1], log_W[c + 2], log_W[c + 3]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = s20 = s21 = s22 = s23 = y.dtype.type(0)
    for d in range(y.shape[1]):
        a, b, e = y0[d], y1[d], y2[d]
        w = w0[d]
        s00, s10, s20 = s00 + a * w, s10 + b * w, s20 + e * w
        w = w1[d]
        s01, s11, s21 = s01 + a * w, s11 + b * w, s21 + e * w
        w = w2[d]
        s02, s12, s22 = s02 + a * w, s12 + b * w, s22 + e * w
        w = w3[d]
        s03, s13, s23 = s03 + a * w, s13 + b * w, s23 + e * w
    drive[n, c], drive[n, c + 1], drive[n, c + 2], drive[n, c + 3] = s00, s01, s02, s03
    drive[n + 1, c], drive[n + 1, c + 1], drive[n + 1, c + 2], drive[n + 1, c + 3] = s10, s11, s12, s13
    drive[n + 2, c], drive[n + 2, c + 1], drive[n + 2, c + 2], drive[n + 2, c + 3] = s20, s21, s22, s23


@vectorised_njit
def _drive_of_pair(a, w):  # type: ignore[no-untyped-def]
    total = a.dtype.type(0)
    for d in range(a.shape[0]):
        total += a[d] * w[d]
    return total


@njit
def _drive_of_units(y, log_W, drive, first, last):  # type: ignore[no-untyped-def]
    in_tiles, points_in_tiles = last - (last - first) % 4, y.shape[0] - y.shape[0] % 3
    for n in range(0, points_in_tiles, 3):
        for c in range(first, in_tiles, 4):
            _drive_of_tile(y, log_W, drive, n, c)
    for n in range(y.shape[0]):
        for c in range(first if n >= points_in_tiles else in_tiles, last):
            drive[n, c] = _drive_of_pair(y[n], log_W[c])


@parallel_njit
def _drive_kernel(y, log_W):  # type: ignore[no-untyped-def]
    if y.shape[0] > _FEW_POINTS:
        return np.dot(y, log_W.T)
    C = log_W.shape[0]
    drive = np.empty((y.shape[0], C), dtype=y.dtype)
    if log_W.size < SMALL:
        _drive_of_units(y, log_W, drive, 0, C)
    else:
        for block in prange((C + ROWS - 1) // ROWS):
            _drive_of_units(y, log_W, drive, block * ROWS, min((block + 1) * ROWS, C))
    return drive


# ---- T1.4 and the likelihood -----------------------------------------------------------------------------


class Activities(Op):
    """(drive, feedback, log_prior, labels, W_sum, members) -> T1.4's s, and the log-likelihood given the label.

    That is eq. (loglikelihood) without the Gamma term and the probability of the label. Row k of `log_prior` is
    log R_kc, its last row log mean_k R_kc for points without a label. `feedback` is the same table in recurrent
    networks, which add it to the drive before the softmax (T1.5), and zero in feedforward ones; the likelihood contains
    the prior in every network. The drive is used up: s takes its place in memory. The length of `members` is the
    size of the committee: the number of softmax groups, whose likelihoods are averaged.
    """

    __props__ = ()
    destroy_map = {0: [0]}  # noqa: RUF012  (PyTensor reads it from the class)

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variables[0].type(), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        drive, feedback, log_prior, labels, W_sum, members = inputs
        by_member = (len(drive), len(members), -1)
        joint = (drive + log_prior[labels] - W_sum).reshape(by_member)  # label -1 is the last row
        largest = joint.max(axis=2, keepdims=True)
        likelihood = (largest[..., 0] + np.log(np.exp(joint - largest).sum(axis=2))).mean(axis=1)
        drive += feedback[labels]
        s = drive.reshape(by_member)
        s -= s.max(axis=2, keepdims=True)
        np.exp(s, out=s)
        s /= s.sum(axis=2, keepdims=True)
        output_storage[0][0], output_storage[1][0] = drive, likelihood.astype(np.float64)


@vectorised_njit
def _activities_of_point(drive, feedback, prior, W_sum):  # type: ignore[no-untyped-def]
    C = drive.shape[0]
    joint = np.empty(C, dtype=drive.dtype)
    largest = largest_joint = drive.dtype.type(-np.inf)
    for c in range(C):
        joint[c] = drive[c] + prior[c] - W_sum[c]
        drive[c] += feedback[c]
        largest_joint = max(largest_joint, joint[c])
        largest = max(largest, drive[c])
    total = total_joint = drive.dtype.type(0)
    for c in range(C):
        value = fast_math.exp(drive[c] - largest)
        drive[c] = value
        total += value
        total_joint += fast_math.exp(joint[c] - largest_joint)
    for c in range(C):
        drive[c] /= total
    return largest_joint + np.log(np.float64(total_joint))


@njit
def _activities_of_committee(drive, feedback, prior, W_sum, G):  # type: ignore[no-untyped-def]
    total, C = 0.0, drive.shape[0] // G
    for g in range(G):
        own = slice(g * C, (g + 1) * C)
        total += _activities_of_point(drive[own], feedback[own], prior[own], W_sum[own])
    return total / G


@parallel_njit
def _activities_kernel(drive, feedback, log_prior, labels, W_sum, members):  # type: ignore[no-untyped-def]
    n_points, G, K = drive.shape[0], members.shape[0], log_prior.shape[0] - 1
    likelihood = np.empty(n_points, dtype=np.float64)
    if drive.size < SMALL:
        for n in range(n_points):
            row = labels[n] if labels[n] >= 0 else K
            likelihood[n] = _activities_of_committee(drive[n], feedback[row], log_prior[row], W_sum, G)
    else:
        for n in prange(n_points):
            row = labels[n] if labels[n] >= 0 else K
            likelihood[n] = _activities_of_committee(drive[n], feedback[row], log_prior[row], W_sum, G)
    return drive, likelihood


class UnitEvidence(Op):
    """(drive, W_sum) -> exp(drive_c - W_sum_c) of every point relative to its largest, and the log of the largest."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variables[0].type(), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        drive, W_sum = inputs
        joint = drive - W_sum
        largest = joint.max(axis=1)
        output_storage[0][0], output_storage[1][0] = np.exp(joint - largest[:, None]), largest.astype(np.float64)


@vectorised_njit
def _evidence_of_point(drive, W_sum, evidence):  # type: ignore[no-untyped-def]
    largest = drive.dtype.type(-np.inf)
    for c in range(drive.shape[0]):
        evidence[c] = drive[c] - W_sum[c]
        largest = max(largest, evidence[c])
    for c in range(drive.shape[0]):
        evidence[c] = fast_math.exp(evidence[c] - largest)
    return largest


@parallel_njit
def _evidence_kernel(drive, W_sum):  # type: ignore[no-untyped-def]
    evidence, largest = np.empty_like(drive), np.empty(drive.shape[0], dtype=np.float64)
    if drive.size < SMALL:
        for n in range(drive.shape[0]):
            largest[n] = _evidence_of_point(drive[n], W_sum, evidence[n])
    else:
        for n in prange(drive.shape[0]):
            largest[n] = _evidence_of_point(drive[n], W_sum, evidence[n])
    return evidence, largest


# ---- mini-batch rules ------------------------------------------------------------------------------------


class Gains(Op):
    """(activity, epsilon) -> gains of a mini-batch rule, and their sum, which is the share that each unit forgets.

    The activity is used up by the gains.
    """

    __props__ = ("rule",)
    destroy_map = {0: [0]}  # noqa: RUF012

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def make_node(self, activity: Any, epsilon: Any) -> Apply:
        activity, epsilon = pt.as_tensor_variable(activity), pt.as_tensor_variable(epsilon)
        return Apply(self, [activity, epsilon], [activity.type(), pt.vector(dtype=activity.dtype)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        activity, epsilon = inputs
        forgotten = np.zeros(activity.shape[1], dtype=activity.dtype)
        activity *= epsilon[:, None]
        for n in reversed(range(len(activity))):
            if self.rule == "sequential":
                activity[n] *= 1 - forgotten
            forgotten += activity[n]
        output_storage[0][0], output_storage[1][0] = activity, forgotten


def _gains_kernel(sequential: bool) -> Callable[..., Any]:
    @vectorised_njit
    def strip(activity, epsilon, forgotten, first, last):  # type: ignore[no-untyped-def]
        for i in range(activity.shape[0]):
            n = activity.shape[0] - 1 - i
            for c in range(first, last):
                gain = epsilon[n] * activity[n, c]
                if sequential:
                    gain *= activity.dtype.type(1) - forgotten[c]
                activity[n, c] = gain
                forgotten[c] += gain

    @parallel_njit
    def gains(activity, epsilon):  # type: ignore[no-untyped-def]
        n_points, n_units = activity.shape
        forgotten = np.zeros(n_units, dtype=activity.dtype)
        if n_points * n_units < SMALL:
            strip(activity, epsilon, forgotten, 0, n_units)
        else:
            for block in prange((n_units + _BLOCK - 1) // _BLOCK):
                strip(activity, epsilon, forgotten, block * _BLOCK, min((block + 1) * _BLOCK, n_units))
        return activity, forgotten

    return gains


_GAINS = {"sequential": _gains_kernel(sequential=True), "summed": _gains_kernel(sequential=False)}
_PRODUCTS = {"second": _times_transposed, "first": _transposed_times}
register_kernel(Product, lambda op: _PRODUCTS[op.transposed], *_PRODUCTS.values())
_ACTIVITIES = (_activities_of_point, _activities_of_committee, _activities_kernel)
register_kernel(Activities, lambda op: _activities_kernel, *_ACTIVITIES)
register_kernel(Gains, lambda op: _GAINS[op.rule], _gains_kernel)
register_kernel(UnitEvidence, lambda op: _evidence_kernel, _evidence_of_point, _evidence_kernel)
_DRIVE = (_drive_of_tile, _drive_of_pair, _drive_of_units, _drive_kernel)
register_kernel(MiniBatchDrive, lambda op: _drive_kernel, *_DRIVE)
