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
from nesi.engines import excess_kernels, kernels, sparse_kernels
from nesi.engines.backend import CompiledFunction, Expression, has_kernels, state_variable
from nesi.engines.class_layers import FirstLayerActivities
from nesi.engines.contract import Inference, Posterior, StepInfo
from nesi.engines.inference import full_posterior, sparse_activities
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.top_down import TopDown
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
        if _keeps_excess(spec.graph):
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

    def first_layer_step(self, points: Points, epsilon_W: np.ndarray) -> FirstLayerActivities:
        """T1.7 over a mini-batch, for class layers that learn beside each other. Feedforward networks only."""
        unlabeled = np.full(len(epsilon_W), UNLABELED, dtype=np.int64)
        inputs = [*as_arrays(points), unlabeled, np.ones(1), np.asarray(epsilon_W, self.spec.dtype), self._A]
        return FirstLayerActivities(*_first_layer_step(self.spec.graph)(self._weights.arrays, *inputs))

    def end_iteration(self) -> None:
        """What follows from W is computed again, so that a training that starts again from W goes on bit for bit."""
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


def _keeps_excess(spec: GraphSpec) -> bool:
    """Sparse data has a background in common; only our own Ops make use of it."""
    return spec.sparse and has_kernels(spec.backend)


# ---- graphs ------------------------------------------------------------------------------------------------


class _Graph:
    """The symbolic pieces that training and inference share."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        dtype = spec.dtype
        names, in_float64 = {"W": 2, "log_W": 2, "R": 2, "reference": 1, "smallest": 1}, {"W_sum": 1}
        if _keeps_excess(spec):
            names, in_float64 = {"V": 2, "R": 2}, {"scale": 1, "sums": 2, "excess": 1, "lazy": 1}
        elif spec.sparse:
            in_float64["log_W_sum"] = 1
        self.state = {name: state_variable(name, ndim, dtype) for name, ndim in names.items()}
        self.state |= {name: state_variable(name, ndim, "float64") for name, ndim in in_float64.items()}
        self.top_down = TopDown(spec, self.state["R"])
        self.A, self.recurrent = pt.dscalar("A"), pt.bscalar("recurrent")
        if spec.sparse:
            self.points = [pt.vector("x", dtype=dtype), pt.lvector("columns"), pt.lvector("row_starts")]
        else:
            self.points = [pt.matrix("x", dtype=dtype)]
            self.y = equations.observed_layer(equations.bottom_up_input(self.points[0]), self.A)

    def drive(self, training: bool) -> Expression:
        """The bottom-up term of T1.5, relative to the `reference` of the weights."""
        if not self.spec.sparse:
            if training and has_kernels(self.spec.backend):
                return kernels.MiniBatchDrive()(self.y, self.state["log_W"])
            return equations.bottom_up_drive(self.y, self.state["log_W"])
        if _keeps_excess(self.spec):
            weights = (self.state[name] for name in ("V", "scale", "sums", "lazy"))
            return excess_kernels.ExcessDrive()(*self.points, *weights)
        background = self.state["log_W_sum"][None, :]
        # Always true: JAX can't make an array of a size that is a variable.
        every_point = pt.ge(self.top_down.labels, -1)
        start = every_point[:, None] * background
        return sparse_kernels.sparse_dot(self.state["log_W"], start, *self.points)

    def activities(self, training: bool = False) -> tuple[Expression, Expression]:
        """s (T1.4) and the log-likelihood of every point."""
        drive, top_down = self.drive(training), self.top_down
        W_sum = self.sums_of_rows().astype(drive.dtype)
        if has_kernels(self.spec.backend):
            tables = top_down.tables(self.recurrent, drive.dtype)
            s, log_likelihood = kernels.Activities()(drive, *tables, top_down.labels, W_sum, top_down.members)
            return s.astype(self.spec.dtype), log_likelihood + top_down.evidence() + self.common_drive()
        u, R = top_down.u().astype(drive.dtype), self.state["R"].astype(drive.dtype)
        total = drive + pt.where(self.recurrent, equations.top_down_drive(u, R), 0)
        log_joint = equations.log_joint(drive, W_sum, u, top_down.evidence(), R)
        s = top_down.of_all_units(equations.first_hidden(top_down.by_member(total)))
        log_likelihood = equations.log_likelihood(top_down.by_member(log_joint), 0).mean(axis=1)
        return s.astype(self.spec.dtype), log_likelihood + self.common_drive()

    def sums_of_rows(self) -> Expression:
        """sum_d W_cd."""
        if not _keeps_excess(self.spec):
            return self.state["W_sum"]
        return self.state["excess"] + self.state["V"].shape[0].astype("float64")

    def common_drive(self) -> Expression:
        """What the reference takes away from the drives of all units."""
        return pt.zeros((), "float64") if self.spec.sparse else common_drive(self.y, self.state["reference"])

    def gains(self, activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
        if has_kernels(self.spec.backend):
            gains, forgotten = kernels.Gains(self.spec.rule)(activity, epsilon)
            return forgotten, gains
        return equations.MINIBATCH_RULES[self.spec.rule](activity, epsilon)

    def updates_of_W(self, forgotten: Expression, gains: Expression) -> dict[str, Expression]:
        if _keeps_excess(self.spec):
            names = ("V", "scale", "sums", "excess", "lazy")
            before = [self.state[name] for name in names]
            return dict(zip(names, excess_kernels.ExcessUpdate()(*before, forgotten, gains, *self.points), strict=True))
        W, log_W, W_sum, reference = (self.state[name] for name in ("W", "log_W", "W_sum", "reference"))
        if has_kernels(self.spec.backend):
            new = kernels.UpdateW()(W, log_W, W_sum, reference, self.state["smallest"], forgotten, gains, self.y)
            return dict(zip(("W", "log_W", "W_sum"), new, strict=True))
        background = gains.sum(axis=0)  # the +1 of T1.3
        if self.spec.sparse:
            new_W = sparse_kernels.sparse_update(W, forgotten, background, gains, *self.points)
        else:
            new_W = equations.update_W(W, forgotten, gains, self.y)
        new_log_W = pt.log(new_W) - reference[None, :]
        sums = {"W_sum": new_W.sum(axis=1, dtype="float64")}
        if self.spec.sparse:
            sums["log_W_sum"] = new_log_W.sum(axis=1, dtype="float64")
        return {"W": new_W.astype(self.spec.dtype), "log_W": new_log_W.astype(self.spec.dtype), **sums}


@cache
def _training_step(spec: GraphSpec, learn: str) -> CompiledFunction:
    graph = _Graph(spec)
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
def _first_layer_step(spec: GraphSpec) -> CompiledFunction:
    graph = _Graph(spec)
    epsilon_W = pt.vector("epsilon_W", dtype=spec.dtype)
    drive, sums = graph.drive(training=True), graph.sums_of_rows()
    # The same kernel as elsewhere, with a prior of 1 for every unit: its likelihood is then log sum_c exp(I_c).
    nothing = (0 * sums).astype(drive.dtype)
    same_for_all = nothing[None, :], nothing[None, :], pt.lvector("unlabeled"), nothing, pt.dvector("one_member")
    s, log_total = kernels.Activities()(drive, *same_for_all)
    s, smallest = s.astype(spec.dtype), sums.min()
    unit_weights = pt.exp(smallest - sums).astype(spec.dtype)
    updates = graph.updates_of_W(*graph.gains(s, epsilon_W))
    inputs = [*graph.points, same_for_all[2], same_for_all[4], epsilon_W, graph.A]
    s = deep_copy_op(s)  # the gains take the place of the activities
    outputs = [s, unit_weights, log_total + graph.common_drive() - smallest]
    return CompiledFunction("the step of the first layer", spec.backend, inputs, outputs, graph.state, updates)


def common_drive(y: Expression, reference: Expression) -> Expression:
    """sum_d y_d b_d of every point, in float64."""
    return (y * reference[None, :]).sum(axis=1, dtype="float64")


@cache
def _inference(spec: GraphSpec) -> CompiledFunction:
    graph = _Graph(spec)
    s, log_likelihood = graph.activities()
    t = graph.top_down.second_hidden(s)
    inputs: list[Any] = [*graph.points, *graph.top_down.inputs, graph.A, graph.recurrent]
    return CompiledFunction("inference", spec.backend, inputs, [s, t, log_likelihood], graph.state)
