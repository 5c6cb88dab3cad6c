"""Class layers that learn at the same time as the first layer, several of them beside each other.

The first layer of a feedforward network never hears of labels or of R: one first layer can carry the class layers of
several networks, each with labels of its own, and both layers learn at once as in the paper. What a class layer needs
of a mini-batch are the activities of its points and, for the likelihood, p(y | c) of every unit.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import pytensor.tensor as pt

from nesi import equations
from nesi.engines.backend import CompiledFunction, Expression, state_variable
from nesi.engines.contract import StepInfo
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.top_down import TopDown


class FirstLayerActivities(NamedTuple):
    """What a first layer says about some points, with the weights from before the step."""

    s: np.ndarray  # T1.4
    evidence: np.ndarray  # p(y | c) of every unit, relative to the largest
    log_scale: np.ndarray  # the log of what that is relative to, without the Gamma term


class ClassLayer:
    """R of one feedforward network."""

    def __init__(self, spec: NetworkSpec, R: np.ndarray, threshold: float) -> None:
        self.spec = spec
        self._threshold = spec.network_inputs(threshold)[1]
        self._state = {"R": np.array(R, dtype=spec.dtype, order="C")}

    @property
    def R(self) -> np.ndarray:
        return np.asarray(self._state["R"])

    def step(self, activities: FirstLayerActivities, labels: np.ndarray, epsilon_R: np.ndarray) -> StepInfo:
        """T1.8 over a mini-batch, and the likelihood of its points before."""
        label_inputs = self.spec.label_inputs(labels, len(self.R))
        epsilon = np.asarray(epsilon_R, self.spec.dtype)
        # Without self-labeling, a mini-batch without labels teaches R nothing.
        learns = self.spec.network.self_labeling or bool((labels >= 0).any())
        function = _class_layer_step(self.spec.graph, learns)
        log_likelihood, self_labeled = function(self._state, *activities, *label_inputs, epsilon, self._threshold)
        return StepInfo(log_likelihood, int(self_labeled))


@cache
def _class_layer_step(spec: GraphSpec, learns: bool) -> CompiledFunction:
    dtype = spec.dtype
    R = state_variable("R", 2, dtype)
    top_down = TopDown(spec, R)
    s, evidence = pt.matrix("s", dtype=dtype), pt.matrix("evidence", dtype=dtype)
    log_scale = pt.dvector("log_scale")
    epsilon_R, threshold = pt.vector("epsilon_R", dtype=dtype), pt.scalar("threshold", dtype=dtype)
    smallest = float(np.nextafter(np.zeros(1, dtype), 1)[0])  # the units of a label may explain a point that badly
    log_likelihood = log_scale + pt.log(pt.maximum(_prior_mass(evidence, top_down), smallest)) + top_down.evidence()
    updates: dict[str, Expression] = {}
    self_labeled = pt.zeros((), dtype="float64")
    if learns:
        inferred = equations.inferred_class(s, R, 1, top_down.prior)
        t, self_labeled = top_down.taught(inferred, threshold, epsilon_R)
        updates["R"] = equations.without_denormals(top_down.updated_R(s, t, epsilon_R).astype(dtype))
    inputs = [s, evidence, log_scale, *top_down.inputs, epsilon_R, threshold]
    outputs = [log_likelihood, self_labeled]
    return CompiledFunction("the step of a class layer", spec.backend, inputs, outputs, {"R": R}, updates)


def _prior_mass(evidence: Expression, top_down: TopDown) -> Expression:
    """sum_c p(y | c) p(c | label) of every point, relative to the largest p(y | c)."""
    K = top_down.R.shape[0]
    unlabeled = (top_down.R * top_down.prior[:, None]).sum(axis=0, keepdims=True) / K.astype(top_down.spec.dtype)
    masses = evidence @ pt.concatenate([top_down.R, unlabeled]).T
    row = pt.where(equations.is_labeled(top_down.labels), top_down.labels, K)
    return masses[pt.arange(row.shape[0]), row].astype("float64")
