"""The costly steps of Table 1 as PyTensor Ops with a parallel numba implementation.

Next to the two matrix products a training step reads and writes three large arrays: the activities (points x C),
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
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from nesi.engines import fast_math

# Starts numba's thread pool. Compiled graphs from the cache on disk call into it, but do not start it themselves if
# their parallel parts came from the cache when they were compiled: they would call a function that is not there.
get_num_threads()

# Sums may be reordered so that they vectorise; NaN and infinity keep their meaning.
_FLAGS = {"contract", "nsz", "reassoc", "arcp"}
_BLOCK = 512  # columns per task: a strip of activities that stays in the first-level cache
parallel_njit = njit(parallel=True, fastmath=_FLAGS)  # cached on disk as part of the graphs that use it


def register_kernel(op_type: type[Op], choose: Callable[[Op], Callable[..., Any]], *written_in: Any) -> None:
    """Let compiled graphs run `choose(op)` for the Op; a change of the source makes code cached on disk invalid."""
    source = "".join(inspect.getsource(getattr(part, "py_func", part)) for part in (*written_in, fast_math))
    version = int(hashlib.sha256(source.encode()).hexdigest()[:12], 16)

    @register_funcify_default_op_cache_key(op_type)
    def _funcify(op: Op, node: Apply, **kwargs: Any) -> tuple[Callable[..., Any], int]:
        return choose(op), version


# ---- T1.4 and the likelihood -----------------------------------------------------------------------------


class Activities(Op):
    """(drive, log_prior, labels, W_sum) -> T1.4's s, and eq. (loglikelihood) without the Gamma term.

    Row k of `log_prior` is log R_kc, its last row log mean_k R_kc for points without a label. The recurrent
    network adds it to the drive before the softmax (T1.5); the likelihood contains it in every network.
    The drive is used up: s takes its place in memory.
    """

    __props__ = ("recurrent",)
    destroy_map = {0: [0]}  # noqa: RUF012  (PyTensor reads it from the class)

    def __init__(self, recurrent: bool) -> None:
        self.recurrent = recurrent

    def make_node(self, drive: Any, log_prior: Any, labels: Any, W_sum: Any) -> Apply:
        inputs = [pt.as_tensor_variable(x) for x in (drive, log_prior, labels, W_sum)]
        return Apply(self, inputs, [inputs[0].type(), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        drive, log_prior, labels, W_sum = inputs
        K = len(log_prior) - 1
        prior = log_prior[np.where(labels >= 0, labels, K)]
        joint = drive + prior - W_sum
        largest = joint.max(axis=1)
        likelihood = (
            largest + np.log(np.exp(joint - largest[:, None]).sum(axis=1)) - np.where(labels >= 0, np.log(K), 0)
        )
        if self.recurrent:
            drive += prior
        drive -= drive.max(axis=1, keepdims=True)
        np.exp(drive, out=drive)
        drive /= drive.sum(axis=1, keepdims=True)
        output_storage[0][0], output_storage[1][0] = drive, likelihood.astype(np.float64)


def _activities_kernel(recurrent: bool) -> Callable[..., Any]:
    @parallel_njit
    def activities(drive, log_prior, labels, W_sum):  # type: ignore[no-untyped-def]
        n_points, C = drive.shape
        K = log_prior.shape[0] - 1
        likelihood = np.empty(n_points, dtype=np.float64)
        for n in prange(n_points):
            prior = log_prior[labels[n]] if labels[n] >= 0 else log_prior[K]
            joint = np.empty(C, dtype=drive.dtype)
            largest = largest_joint = drive.dtype.type(-np.inf)
            for c in range(C):
                joint[c] = drive[n, c] + prior[c] - W_sum[c]
                largest_joint = max(largest_joint, joint[c])
                if recurrent:
                    drive[n, c] += prior[c]
                largest = max(largest, drive[n, c])
            total = total_joint = drive.dtype.type(0)
            for c in range(C):
                value = fast_math.exp(drive[n, c] - largest)
                drive[n, c] = value
                total += value
                total_joint += fast_math.exp(joint[c] - largest_joint)
            for c in range(C):
                drive[n, c] /= total
            likelihood[n] = largest_joint + np.log(np.float64(total_joint))
            if labels[n] >= 0:
                likelihood[n] -= np.log(K)
        return drive, likelihood

    return activities


# ---- mini-batch rules ------------------------------------------------------------------------------------


class Gains(Op):
    """(activity, epsilon) -> gains and decay of a mini-batch rule; the activity is used up by the gains."""

    __props__ = ("rule",)
    destroy_map = {0: [0]}  # noqa: RUF012

    def __init__(self, rule: str) -> None:
        self.rule = rule

    def make_node(self, activity: Any, epsilon: Any) -> Apply:
        activity, epsilon = pt.as_tensor_variable(activity), pt.as_tensor_variable(epsilon)
        return Apply(self, [activity, epsilon], [activity.type(), pt.vector(dtype=activity.dtype)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        activity, epsilon = inputs
        decay = np.ones(activity.shape[1], dtype=activity.dtype)
        activity *= epsilon[:, None]
        if self.rule == "summed":
            decay -= activity.sum(axis=0)
        else:
            for n in reversed(range(len(activity))):
                step = activity[n].copy()
                activity[n] *= decay
                decay *= 1 - step
        output_storage[0][0], output_storage[1][0] = activity, decay


def _gains_kernel(sequential: bool) -> Callable[..., Any]:
    @parallel_njit
    def gains(activity, epsilon):  # type: ignore[no-untyped-def]
        n_points, n_units = activity.shape
        decay = np.ones(n_units, dtype=activity.dtype)
        for block in prange((n_units + _BLOCK - 1) // _BLOCK):
            first, last = block * _BLOCK, min((block + 1) * _BLOCK, n_units)
            for i in range(n_points):
                n = n_points - 1 - i
                for c in range(first, last):
                    step = epsilon[n] * activity[n, c]
                    if sequential:
                        activity[n, c] = step * decay[c]
                        decay[c] *= activity.dtype.type(1) - step
                    else:
                        activity[n, c] = step
                        decay[c] -= step
        return activity, decay

    return gains


# ---- T1.7 ------------------------------------------------------------------------------------------------


class UpdateW(Op):
    """(W, log_W, W_sum, decay, increment) -> T1.7 in place: W = decay W + increment, its log and its row sums.

    Rows that no point activated are left alone: their logarithm has not changed either.
    """

    __props__: tuple[str, ...] = ()
    destroy_map = {0: [0], 1: [1], 2: [2]}  # noqa: RUF012  (PyTensor reads it from the class)

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variable.type() for variable in variables[:3]])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        W, log_W, W_sum, decay, increment = inputs
        W *= decay[:, None]
        W += increment
        np.log(W, out=log_W)
        W_sum[...] = W.sum(axis=1, dtype=np.float64)
        for storage, value in zip(output_storage, (W, log_W, W_sum), strict=True):
            storage[0] = value


@parallel_njit
def _update_W_kernel(W, log_W, W_sum, decay, increment):  # type: ignore[no-untyped-def]
    C, D = W.shape
    for c in prange(C):
        changed = decay[c] != 1
        if not changed:
            for d in range(D):
                changed |= increment[c, d] != 0
        if changed:
            total = W.dtype.type(0)
            for d in range(D):
                value = decay[c] * W[c, d] + increment[c, d]
                W[c, d] = value
                log_W[c, d] = fast_math.log(value)
                total += value
            W_sum[c] = total
    return W, log_W, W_sum


_ACTIVITIES = {recurrent: _activities_kernel(recurrent) for recurrent in (False, True)}
_GAINS = {"sequential": _gains_kernel(sequential=True), "summed": _gains_kernel(sequential=False)}
register_kernel(Activities, lambda op: _ACTIVITIES[op.recurrent], _activities_kernel)
register_kernel(Gains, lambda op: _GAINS[op.rule], _gains_kernel)
register_kernel(UpdateW, lambda op: _update_W_kernel, _update_W_kernel)
