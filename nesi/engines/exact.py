"""The exact engine: one compiled PyTensor function per training step, one for inference, full posteriors.

Both layers learn from the weights as they were before the step: the graph reads W and R, and writes their updates.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
from pytensor.compile.ops import deep_copy_op

from nesi import equations
from nesi.engines import kernels
from nesi.engines.backend import CompiledFunction, Expression, State, has_kernels
from nesi.engines.class_layers import FirstLayerActivities
from nesi.engines.contract import Inference, Posterior, StepInfo
from nesi.engines.exact_graph import ExactGraph, keeps_excess
from nesi.engines.inference import full_posterior, sparse_activities
from nesi.engines.proposals import Proposal
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.weights import ExcessWeights, Weights
from nesi.labels import UNLABELED
from nesi.observations import Observations, Points, SparseRows


class ExactEngine:
    """Weights of one network and the compiled functions that use them."""

    def __init__(self, spec: NetworkSpec, W: np.ndarray, R: np.ndarray, normalization: float, threshold: float) -> None:
        self.spec = spec
        self._A = np.asarray(normalization, "float64")
        self._network_inputs = spec.network_inputs(threshold)
        self._capacity = self._entries = 0
        self._weights: Weights | ExcessWeights
        if keeps_excess(spec.graph):
            self._weights = ExcessWeights(W, R, spec.dtype)
        else:
            self._weights = Weights(W, R, spec.dtype, spec.sparse)

    @property
    def W(self) -> np.ndarray:
        return self._weights.W

    @property
    def R(self) -> np.ndarray:
        return self._weights.R

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        self._weights.set_weights(W, R)

    def step(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        learn: str = "WR",
        indices: np.ndarray | None = None,
    ) -> StepInfo:
        """T1.7 and T1.8 over a mini-batch; which points of the training data these are does not matter here."""
        dtype = self.spec.dtype
        arrays = [*as_arrays(points), labels, np.asarray(epsilon_W, dtype), np.asarray(epsilon_R, dtype)]
        *points_inputs, filled_labels, rates_W, rates_R = self._fit_to_backend(arrays)
        label_inputs = self.spec.label_inputs(filled_labels, len(self.R))
        function = _training_step(self.spec.graph, learn)
        inputs = [*points_inputs, *label_inputs, rates_W, rates_R, self._A, *self._network_inputs]
        log_likelihood, self_labeled = function(self._weights.arrays, *inputs)
        return StepInfo(np.asarray(log_likelihood)[: len(labels)], int(self_labeled))

    def propose(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        indices: np.ndarray | None = None,
        strangers: np.ndarray | None = None,
    ) -> tuple[StepInfo, Proposal]:
        """What `step` would change; nothing is changed. Full posteriors need neither indices nor strangers."""
        dtype = self.spec.dtype
        rates = [np.asarray(epsilon_W, dtype), np.asarray(epsilon_R, dtype)]
        label_inputs = self.spec.label_inputs(labels, len(self.R))
        inputs = [*as_arrays(points), *label_inputs, *rates, self._A, *self._network_inputs]
        outputs = _proposal_step(self.spec.graph)(self._weights.arrays, *inputs)
        log_likelihood, self_labeled, forgotten, learned, R_forgotten, R_learned = outputs
        smallest = self._weights.arrays.get("smallest", np.zeros(1))[0]
        rows = np.flatnonzero(forgotten > np.finfo(dtype).eps / 2 * smallest / self._A)  # as `UpdateW` does
        proposal = Proposal(rows, forgotten[rows], learned[rows], R_forgotten, R_learned)
        return StepInfo(log_likelihood, int(self_labeled)), proposal

    def share_weights_of(self, other: ExactEngine) -> None:
        """Several engines have the same weights."""
        self._weights = other._weights

    def replace_rows(self, rows: np.ndarray, W: np.ndarray, R: np.ndarray) -> None:
        """Other values for some rows of W, and for R."""
        self._weights.replace_rows(rows, W, R)

    def first_layer_step(self, points: Points, epsilon_W: np.ndarray) -> FirstLayerActivities:
        """T1.7 over a mini-batch, for class layers that learn beside each other. Feedforward networks only."""
        unlabeled = np.full(len(epsilon_W), UNLABELED, dtype=np.int64)
        inputs = [*as_arrays(points), unlabeled, np.ones(1), np.asarray(epsilon_W, self.spec.dtype), self._A]
        return FirstLayerActivities(*_first_layer_step(self.spec.graph)(self._weights.arrays, *inputs))

    def end_iteration(self) -> None:
        """What follows from W is computed again, so that training that restarts from W continues bit for bit."""
        self._weights.compute_derived()

    def settle(self) -> None:
        """Full posteriors need no preparation."""

    def activities(self, data: Observations) -> sp.csr_array:
        return sparse_activities(self, data)

    def state(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Nothing to restore."""

    def posterior(self, data: Observations, labels: np.ndarray | None = None) -> Posterior:
        return full_posterior(self, data, labels)

    def infer(self, points: Points, labels: np.ndarray) -> Inference:
        no_learning = np.zeros(len(labels), self.spec.dtype)
        *inputs, filled_labels, _, _ = self._fit_to_backend([*as_arrays(points), labels, no_learning, no_learning])
        label_inputs = self.spec.label_inputs(filled_labels, len(self.R))
        function = _inference(self.spec.graph._replace(rule="sequential"))
        outputs = function(self._weights.arrays, *inputs, *label_inputs, self._A, self._network_inputs[0])
        return Inference(*(np.asarray(output)[: len(labels)] for output in outputs))

    def call(
        self, function: CompiledFunction, points: Points, labels: np.ndarray, weights: np.ndarray, more_state: State
    ) -> list[Any]:
        """Call a function of points, labels, weights of points, A and the kind of network; `more_state` is updated."""
        weights = np.asarray(weights, self.spec.dtype)
        *inputs, filled_labels, counts, _ = self._fit_to_backend([*as_arrays(points), labels, weights, weights])
        label_inputs = self.spec.label_inputs(filled_labels, len(self.R))
        state = self._weights.arrays | more_state
        outputs = function(state, *inputs, *label_inputs, counts, self._A, self._network_inputs[0])
        more_state.update({key: state[key] for key in more_state})
        return outputs

    def _fit_to_backend(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """JAX compiles again for every new shape, so batches are filled up with points that teach nothing."""
        *points, labels, epsilon_W, epsilon_R = arrays
        if self.spec.sparse and not has_kernels(self.spec.backend):
            data, columns, row_starts = points
            points = [data, columns, np.repeat(np.arange(len(labels)), np.diff(row_starts))]
        if self.spec.backend != "jax":
            return [*points, labels, epsilon_W, epsilon_R]
        self._capacity = max(self._capacity, len(labels))
        missing = self._capacity - len(labels)
        if self.spec.sparse:
            self._entries = max(self._entries, 1 << int(np.ceil(np.log2(max(len(points[0]), 1)))))
            points = [np.pad(part, (0, self._entries - len(part))) for part in points]
        else:
            points = [np.pad(points[0], ((0, missing), (0, 0)), constant_values=1)]
        labels = np.pad(labels, (0, missing), constant_values=-1)
        return [*points, labels, np.pad(epsilon_W, (0, missing)), np.pad(epsilon_R, (0, missing))]


def as_arrays(points: Points) -> tuple[np.ndarray, ...]:
    return tuple(points) if isinstance(points, SparseRows) else (points,)


# ---- graphs ------------------------------------------------------------------------------------------------


@cache
def _training_step(spec: GraphSpec, learn: str) -> CompiledFunction:
    graph = ExactGraph(spec)
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=spec.dtype), pt.vector("epsilon_R", dtype=spec.dtype)
    threshold = pt.scalar("threshold", dtype=spec.dtype)
    s, log_likelihood = graph.activities(training=True)
    updates: dict[str, Expression] = {}
    self_labeled = pt.zeros((), dtype="float64")
    if "R" in learn:
        top_down = graph.top_down
        inferred = equations.inferred_class(s, graph.state["R"], top_down.G, top_down.prior)
        t, self_labeled = top_down.taught(inferred, threshold, epsilon_R)
        updates["R"] = equations.without_denormals(top_down.updated_R(s, t, epsilon_R).astype(spec.dtype))
    if "W" in learn:
        updates |= graph.updates_of_W(*graph.gains(s, epsilon_W))
    inputs = [*graph.points, *graph.top_down.inputs, epsilon_W, epsilon_R, graph.A, graph.recurrent, threshold]
    return CompiledFunction(
        "the training step", spec.backend, inputs, [log_likelihood, self_labeled], graph.state, updates
    )


@cache
def _proposal_step(spec: GraphSpec) -> CompiledFunction:
    """The same for both layers, without changing anything."""
    graph = ExactGraph(spec)
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=spec.dtype), pt.vector("epsilon_R", dtype=spec.dtype)
    threshold = pt.scalar("threshold", dtype=spec.dtype)
    s, log_likelihood = graph.activities(training=True)
    top_down = graph.top_down
    inferred = equations.inferred_class(s, graph.state["R"], top_down.G, top_down.prior)
    t, self_labeled = top_down.taught(inferred, threshold, epsilon_R)
    of_W = graph.change_of_W(*graph.gains(s, epsilon_W))
    of_R = [step.astype(spec.dtype) for step in top_down.change_of_R(s, t, epsilon_R)]
    inputs = [*graph.points, *graph.top_down.inputs, epsilon_W, epsilon_R, graph.A, graph.recurrent, threshold]
    return CompiledFunction(
        "the proposal", spec.backend, inputs, [log_likelihood, self_labeled, *of_W, *of_R], graph.state
    )


@cache
def _first_layer_step(spec: GraphSpec) -> CompiledFunction:
    graph = ExactGraph(spec)
    epsilon_W = pt.vector("epsilon_W", dtype=spec.dtype)
    drive = graph.drive(training=True)
    sums = graph.sums_of_rows().astype(drive.dtype)
    evidence, log_scale = kernels.UnitEvidence()(drive, sums)
    # The same kernel as elsewhere; its likelihood is not needed here, so that any prior will do.
    nothing = (0 * sums)[None, :]
    unlabeled, one_member = pt.lvector("unlabeled"), pt.dvector("one_member")
    s, _ = kernels.Activities()(drive, nothing, nothing, unlabeled, sums, one_member)
    s = s.astype(spec.dtype)
    updates = graph.updates_of_W(*graph.gains(s, epsilon_W))
    inputs = [*graph.points, unlabeled, one_member, epsilon_W, graph.A]
    s = deep_copy_op(s)  # the gains take the place of the activities
    outputs = [s, evidence.astype(spec.dtype), log_scale + graph.common_drive()]
    return CompiledFunction("the step of the first layer", spec.backend, inputs, outputs, graph.state, updates)


@cache
def _inference(spec: GraphSpec) -> CompiledFunction:
    graph = ExactGraph(spec)
    s, log_likelihood = graph.activities()
    t = graph.top_down.second_hidden(s)
    inputs: list[Any] = [*graph.points, *graph.top_down.inputs, graph.A, graph.recurrent]
    return CompiledFunction("inference", spec.backend, inputs, [s, t, log_likelihood], graph.state)
