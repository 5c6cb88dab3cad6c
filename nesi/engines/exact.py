"""The exact engine: one compiled PyTensor function per training step, one for inference, full posteriors.

Both layers learn from the weights as they were before the step: the graph reads W and R, and writes their updates.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp

from nesi import equations
from nesi.engines import kernels, sparse_kernels
from nesi.engines.backend import CompiledFunction, Expression, has_kernels, state_variable
from nesi.engines.contract import Inference, Posterior, StepInfo
from nesi.engines.inference import full_posterior, sparse_activities
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.top_down import TopDown
from nesi.engines.weights import Weights
from nesi.observations import Observations, Points, SparseRows


class ExactEngine(Weights):
    """Weights of one network and the compiled functions that use them."""

    def __init__(self, spec: NetworkSpec, W: np.ndarray, R: np.ndarray, normalization: float, threshold: float) -> None:
        self.spec = spec
        self._A = np.asarray(normalization, "float64")
        self._network_inputs = spec.network_inputs(threshold)
        self._capacity = 0
        super().__init__(W, R, spec.dtype, spec.sparse)

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
        log_likelihood, self_labeled = function(self._state, *inputs)
        return StepInfo(np.asarray(log_likelihood)[: len(labels)], int(self_labeled))

    def end_iteration(self) -> None:
        """What follows from W is computed again, so that a training that starts again from W goes on bit for bit."""
        self.compute_derived()

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
        outputs = function(self._state, *inputs, *label_inputs, self._A, self._network_inputs[0])
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
            entries = 1 << int(np.ceil(np.log2(max(len(points[0]), 1))))
            points = [np.pad(part, (0, entries - len(part))) for part in points]
        else:
            points = [np.pad(points[0], ((0, missing), (0, 0)), constant_values=1)]
        labels = np.pad(labels, (0, missing), constant_values=-1)
        return [*points, labels, np.pad(epsilon_W, (0, missing)), np.pad(epsilon_R, (0, missing))]


def as_arrays(points: Points) -> tuple[np.ndarray, ...]:
    return tuple(points) if isinstance(points, SparseRows) else (points,)


# ---- graphs ------------------------------------------------------------------------------------------------


class _Graph:
    """The symbolic pieces that training and inference share."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        dtype = spec.dtype
        names = {"W": 2, "log_W": 2, "R": 2, "reference": 1}
        self.state = {name: state_variable(name, ndim, dtype) for name, ndim in names.items()}
        self.state["W_sum"] = state_variable("W_sum", 1, "float64")
        self.top_down = TopDown(spec, self.state["R"])
        self.A, self.recurrent = pt.dscalar("A"), pt.bscalar("recurrent")
        if spec.sparse:
            self.state["log_W_sum"] = state_variable("log_W_sum", 1, "float64")
            self.points = [pt.vector("x", dtype=dtype), pt.lvector("columns"), pt.lvector("row_starts")]
        else:
            self.points = [pt.matrix("x", dtype=dtype)]
            self.y = equations.observed_layer(equations.bottom_up_input(self.points[0]), self.A)

    def drive(self) -> Expression:
        """The bottom-up term of T1.5, relative to the `reference` of the weights."""
        if not self.spec.sparse:
            return equations.bottom_up_drive(self.y, self.state["log_W"])
        background = self.state["log_W_sum"][None, :]
        if has_kernels(self.spec.backend):
            return sparse_kernels.SparseDot()(*self.points, self.state["log_W"]) + background
        # Always true: JAX can't make an array of a size that is a variable.
        every_point = pt.ge(self.top_down.labels, -1)
        start = every_point[:, None] * background
        return sparse_kernels.sparse_dot(self.state["log_W"], start, *self.points)

    def activities(self) -> tuple[Expression, Expression]:
        """s (T1.4) and the log-likelihood of every point."""
        drive, top_down = self.drive(), self.top_down
        W_sum = self.state["W_sum"].astype(drive.dtype)
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

    def common_drive(self) -> Expression:
        """What the reference takes away from the drives of all units."""
        return pt.zeros((), "float64") if self.spec.sparse else common_drive(self.y, self.state["reference"])

    def gains(self, activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
        if has_kernels(self.spec.backend):
            gains, forgotten = kernels.Gains(self.spec.rule)(activity, epsilon)
            return forgotten, gains
        return equations.MINIBATCH_RULES[self.spec.rule](activity, epsilon)

    def updates_of_W(self, forgotten: Expression, gains: Expression) -> dict[str, Expression]:
        W, log_W, W_sum, reference = (self.state[name] for name in ("W", "log_W", "W_sum", "reference"))
        if has_kernels(self.spec.backend) and not self.spec.sparse:
            new = kernels.UpdateW()(W, log_W, W_sum, reference, forgotten, gains.T @ self.y)
            return dict(zip(("W", "log_W", "W_sum"), new, strict=True))
        background = gains.sum(axis=0)  # the +1 of T1.3
        if has_kernels(self.spec.backend):
            new_W = sparse_kernels.SparseUpdate()(W, forgotten, background, gains, *self.points)
            new_log_W, new_W_sum, log_W_sum = sparse_kernels.LogOfWeights()(log_W, new_W, reference)
            return {"W": new_W, "log_W": new_log_W, "W_sum": new_W_sum, "log_W_sum": log_W_sum}
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
    s, log_likelihood = graph.activities()
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
