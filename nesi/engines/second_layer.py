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
from nesi.engines.backend import CompiledFunction, has_kernels, state_variable
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.top_down import SparseActivities, TopDown
from nesi.observations import SparseRows


class SecondLayer:
    """R of one network, learning from sparse activities."""

    def __init__(self, spec: NetworkSpec, R: np.ndarray, threshold: float) -> None:
        backend = spec.backend if has_kernels(spec.backend) else "c"  # too small a job to bring to an accelerator
        self._spec = spec._replace(sparse=True, backend=backend)
        self._threshold = spec.network_inputs(threshold)[1]
        self._state = {"R": np.array(R, dtype=spec.dtype, order="C")}

    @property
    def R(self) -> np.ndarray:
        return self._state["R"]

    def step(self, activities: SparseRows, labels: np.ndarray, epsilon_R: np.ndarray) -> int:
        """T1.8 over a mini-batch; returns how many points the network labeled itself."""
        function = _second_layer_step(self._spec.graph)
        (self_labeled,) = function(self._state, *self._inputs(activities, labels, epsilon_R))
        return int(self_labeled)

    def propose(
        self, activities: SparseRows, labels: np.ndarray, epsilon_R: np.ndarray
    ) -> tuple[int, np.ndarray, np.ndarray]:
        """What `step` would change: points that label themselves, what classes forget, what they learn instead."""
        function = _second_layer_proposal(self._spec.graph)
        self_labeled, forgotten, learned = function(self._state, *self._inputs(activities, labels, epsilon_R))
        return int(self_labeled), forgotten, learned

    def set_R(self, R: np.ndarray) -> None:
        self._state["R"] = np.array(R, dtype=self._spec.dtype, order="C")

    def _inputs(self, activities: SparseRows, labels: np.ndarray, epsilon_R: np.ndarray) -> list[Any]:
        data, columns, row_starts = activities
        rows = np.repeat(np.arange(len(row_starts) - 1), np.diff(row_starts))
        places = row_starts if has_kernels(self._spec.backend) else rows
        label_inputs = self._spec.label_inputs(labels, len(self.R))
        return [data, columns, places, rows, *label_inputs, np.asarray(epsilon_R, self._spec.dtype), self._threshold]


@cache
def _second_layer_step(spec: GraphSpec) -> CompiledFunction:
    R, inputs, activities, epsilon_R, t, self_labeled = _second_layer(spec)
    new_R = equations.without_denormals(activities.updated_R(t, epsilon_R).astype(spec.dtype))
    return CompiledFunction(
        "the step of the second layer", spec.backend, inputs, [self_labeled], {"R": R}, {"R": new_R}
    )


@cache
def _second_layer_proposal(spec: GraphSpec) -> CompiledFunction:
    """The same, without changing anything."""
    R, inputs, activities, epsilon_R, t, self_labeled = _second_layer(spec)
    steps = [step.astype(spec.dtype) for step in activities.change_of_R(t, epsilon_R)]
    outputs = [self_labeled, *steps]
    return CompiledFunction("the proposal of the second layer", spec.backend, inputs, outputs, {"R": R})


def _second_layer(spec: GraphSpec) -> tuple[Any, ...]:
    dtype = spec.dtype
    R = state_variable("R", 2, dtype)
    top_down = TopDown(spec, R)
    s: list[Any] = [pt.vector("s", dtype=dtype), pt.lvector("columns"), pt.lvector("places"), pt.lvector("rows")]
    epsilon_R, threshold = pt.vector("epsilon_R", dtype=dtype), pt.scalar("threshold", dtype=dtype)
    activities = SparseActivities(top_down, *s)
    t, self_labeled = top_down.taught(activities.inferred_class(), threshold, epsilon_R)
    return R, [*s, *top_down.inputs, epsilon_R, threshold], activities, epsilon_R, t, self_labeled
