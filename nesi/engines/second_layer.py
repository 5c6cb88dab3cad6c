"""Training of the second hidden layer alone, on cached activities of a first layer that no longer changes.

Feedforward networks can be trained greedily, one layer after the other (Section 3.2). Of the C activities of a
point all but a few are zero, so that they are kept as sparse rows and a pass over them costs next to nothing.
In a committee every point has one row per member.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt

from nesi import equations
from nesi.engines import sparse_kernels
from nesi.engines.backend import CompiledFunction, Expression, has_kernels, state_variable
from nesi.engines.exact import GraphKind, Kind, taught_classes
from nesi.observations import SparseRows


class SecondLayer:
    """R of one network, learning from sparse activities."""

    def __init__(self, kind: Kind, R: np.ndarray, threshold: float) -> None:
        backend = kind.backend if has_kernels(kind.backend) else "c"  # too small a job to bring to an accelerator
        self._kind = kind.graph._replace(sparse=True, backend=backend)
        self._members, self._threshold = kind.members, kind.network_inputs(threshold)[1]
        self._state = {"R": np.array(R, dtype=kind.dtype, order="C")}

    @property
    def R(self) -> np.ndarray:
        return self._state["R"]

    def step(self, activities: SparseRows, labels: np.ndarray, epsilon_R: np.ndarray) -> int:
        """T1.8 over a mini-batch; returns how many points the network labeled itself."""
        data, columns, row_starts = activities
        places = row_starts
        if not has_kernels(self._kind.backend):
            places = np.repeat(np.arange(len(row_starts) - 1), np.diff(row_starts))
        epsilon = np.asarray(epsilon_R, self._kind.dtype)
        function = _second_layer_step(self._kind)
        inputs = [data, columns, places, labels, epsilon, self._members, self._threshold]
        (self_labeled,) = function(self._state, *inputs)
        return int(self_labeled)


@cache
def _second_layer_step(kind: GraphKind) -> CompiledFunction:
    dtype = kind.dtype
    R = state_variable("R", 2, dtype)
    s: list[Any] = [pt.vector("s", dtype=dtype), pt.lvector("columns"), pt.lvector("places")]
    labels, epsilon_R = pt.lvector("labels"), pt.vector("epsilon_R", dtype=dtype)
    members, threshold = pt.dvector("members"), pt.scalar("threshold", dtype=dtype)
    u = equations.label_input(labels, R.shape[0], dtype)
    inferred = mean_of_members(_inferred_class(kind, s, labels, R, members), members)
    t, self_labeled = taught_classes(u, labels, inferred, threshold, epsilon_R)
    forgotten, gains = equations.MINIBATCH_RULES[kind.rule](t.astype(dtype), epsilon_R)
    gains, no_background = for_every_member(gains, members), pt.zeros_like(forgotten)
    if has_kernels(kind.backend):
        new_R = sparse_kernels.SparseUpdate()(R, forgotten, no_background, gains, *s)
    else:
        new_R = sparse_kernels.sparse_update(R, forgotten, no_background, gains, *s).astype(dtype)
    inputs = [*s, labels, epsilon_R, members, threshold]
    return CompiledFunction(
        "the step of the second layer", kind.backend, inputs, [self_labeled], {"R": R}, {"R": new_R}
    )


def mean_of_members(rows: Expression, members: Expression) -> Expression:
    """One row per point and member -> one row per point."""
    return rows.reshape((-1, members.shape[0], rows.shape[1])).mean(axis=1)


def for_every_member(rows: Expression, members: Expression) -> Expression:
    """One row per point -> the same row for each of its members."""
    return pt.repeat(rows, members.shape[0], axis=0)


def _inferred_class(
    kind: GraphKind, s: list[Expression], labels: Expression, R: Expression, members: Expression
) -> Expression:
    """T1.6 for unlabeled data, from sparse activities, one row per point and member."""
    p = equations.class_given_unit(R)
    if has_kernels(kind.backend):
        return sparse_kernels.SparseDot()(*s, p)
    start = pt.zeros((labels.shape[0] * members.shape[0], R.shape[0]), dtype="float64")
    return sparse_kernels.sparse_dot(p, start, *s)
