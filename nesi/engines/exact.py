"""The exact engine: one compiled PyTensor function per training step, one for inference, full posteriors.

Both layers learn from the weights as they were before the step: the graph reads W and R, and writes their updates.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt

from nesi import equations
from nesi.engines import kernels, sparse_kernels
from nesi.engines.backend import CompiledFunction, Expression, has_kernels, state_variable
from nesi.engines.weights import Weights
from nesi.networks import Network
from nesi.observations import Points, SparseRows


class StepInfo(NamedTuple):
    log_likelihood: np.ndarray  # of every point, with the weights before the step, without the Gamma term
    self_labeled: int


class Inference(NamedTuple):
    s: np.ndarray
    t: np.ndarray
    log_likelihood: np.ndarray  # without the Gamma term


class Kind(NamedTuple):
    """A network and how to compute it."""

    network: Network
    rule: str
    dtype: str
    backend: str
    sparse: bool
    committee: int = 1  # G: separated softmax groups, which follow each other in the rows of W and the columns of R

    @property
    def members(self) -> np.ndarray:
        """As long as the committee: graphs get its size as that of an array, because JAX takes no other sizes."""
        return np.ones(self.committee)

    @property
    def graph(self) -> GraphKind:
        return GraphKind(self.rule, self.dtype, self.backend, self.sparse)

    def network_inputs(self, threshold: float) -> tuple[np.ndarray, np.ndarray]:
        """What makes the one compiled graph that of this network: is it recurrent, and when does it label itself.

        BvSB is at most 1: with a threshold above, a network never labels a point itself.
        """
        limit = threshold if self.network.self_labeling else 2.0
        return np.asarray(self.network.recurrent, "int8"), np.asarray(limit, self.dtype)


class GraphKind(NamedTuple):
    """All that decides which graph is compiled: neither the network nor sizes do."""

    rule: str
    dtype: str
    backend: str
    sparse: bool


class ExactEngine(Weights):
    """Weights of one network and the compiled functions that use them."""

    def __init__(self, kind: Kind, W: np.ndarray, R: np.ndarray, normalization: float, threshold: float) -> None:
        self.kind = kind
        self._A = np.asarray(normalization, "float64")
        self._network_inputs = kind.network_inputs(threshold)
        self._capacity = 0
        super().__init__(W, R, kind.dtype, kind.sparse)

    def step(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        learn: str = "WR",
        indices: np.ndarray | None = None,
    ) -> StepInfo:
        """T1.7 and T1.8 over a mini-batch; learning rates are given per point, `learn` names the layers that learn.

        Which points of the training data these are (`indices`) does not matter here.
        """
        dtype = self.kind.dtype
        arrays = [*as_arrays(points), labels, np.asarray(epsilon_W, dtype), np.asarray(epsilon_R, dtype)]
        inputs = self._fit_to_backend(arrays)
        function = _training_step(self.kind.graph, learn)
        kind_inputs = [self.kind.members, *self._network_inputs]
        log_likelihood, self_labeled = function(self._state, *inputs, self._A, *kind_inputs)
        return StepInfo(np.asarray(log_likelihood)[: len(labels)], int(self_labeled))

    def end_iteration(self) -> None:
        """What follows from W is computed anew, so that a training that starts again from W goes on bit for bit."""
        self.compute_derived()

    def search_state(self) -> dict[str, np.ndarray]:
        return {}

    def restore_search(self, state: dict[str, np.ndarray]) -> None:
        """Nothing to restore."""

    def infer(self, points: Points, labels: np.ndarray) -> Inference:
        no_learning = np.zeros(len(labels), self.kind.dtype)
        inputs = self._fit_to_backend([*as_arrays(points), labels, no_learning, no_learning])
        kind_inputs = [self.kind.members, self._network_inputs[0]]
        function = _inference(self.kind.graph._replace(rule="sequential"))
        outputs = function(self._state, *inputs[:-2], self._A, *kind_inputs)
        return Inference(*(np.asarray(output)[: len(labels)] for output in outputs))

    def _fit_to_backend(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """JAX compiles anew for every shape, so batches are filled up to one size with points that teach nothing."""
        *points, labels, epsilon_W, epsilon_R = arrays
        if self.kind.sparse and not has_kernels(self.kind.backend):
            data, columns, row_starts = points
            points = [data, columns, np.repeat(np.arange(len(labels)), np.diff(row_starts))]
        if self.kind.backend != "jax":
            return [*points, labels, epsilon_W, epsilon_R]
        self._capacity = max(self._capacity, len(labels))
        missing = self._capacity - len(labels)
        if self.kind.sparse:
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

    def __init__(self, kind: GraphKind) -> None:
        self.kind = kind
        dtype = kind.dtype
        names = {"W": 2, "log_W": 2, "R": 2, "reference": 1}
        self.state = {name: state_variable(name, ndim, dtype) for name, ndim in names.items()}
        self.state["W_sum"] = state_variable("W_sum", 1, "float64")
        self.labels = pt.lvector("labels")
        self.A, self.members, self.recurrent = pt.dscalar("A"), pt.dvector("members"), pt.bscalar("recurrent")
        if kind.sparse:
            self.state["log_W_sum"] = state_variable("log_W_sum", 1, "float64")
            self.points = [pt.vector("x", dtype=dtype), pt.lvector("columns"), pt.lvector("row_starts")]
        else:
            self.points = [pt.matrix("x", dtype=dtype)]
            self.y = equations.observed_layer(equations.bottom_up_input(self.points[0]), self.A)

    def drive(self) -> Expression:
        """The bottom-up term of T1.5, relative to the `reference` of the weights."""
        if not self.kind.sparse:
            return equations.bottom_up_drive(self.y, self.state["log_W"])
        background = self.state["log_W_sum"][None, :]
        if has_kernels(self.kind.backend):
            return sparse_kernels.SparseDot()(*self.points, self.state["log_W"]) + background
        every_point = pt.ge(self.labels, -1)  # always true: JAX can't make an array of a size that is a variable
        start = every_point[:, None] * background
        return sparse_kernels.sparse_dot(self.state["log_W"], start, *self.points)

    def activities(self) -> tuple[Expression, Expression]:
        """s (T1.4) and the log-likelihood of every point."""
        drive, R = self.drive(), self.state["R"]
        W_sum = self.state["W_sum"].astype(drive.dtype)
        if has_kernels(self.kind.backend):
            tables = top_down_tables(R, self.recurrent, drive.dtype)
            s, log_likelihood = kernels.Activities()(drive, *tables, self.labels, W_sum, self.members)
            return s.astype(self.kind.dtype), log_likelihood + self.common_drive()
        u, R = self.u().astype(drive.dtype), R.astype(drive.dtype)
        total = drive + pt.where(self.recurrent, equations.top_down_drive(u, R), 0)
        log_joint = equations.log_joint(drive, W_sum, u, self.labels, R)
        s = equations.first_hidden(self.by_member(total)).reshape(total.shape)
        log_likelihood = equations.log_likelihood(self.by_member(log_joint), 0).mean(axis=1) + self.common_drive()
        return s.astype(self.kind.dtype), log_likelihood

    def by_member(self, values: Expression) -> Expression:
        """Values of all units with the members of the committee as an axis of their own."""
        return values.reshape((values.shape[0], self.members.shape[0], -1))

    def common_drive(self) -> Expression:
        """What the reference takes away from the drives of all units."""
        return pt.zeros((), "float64") if self.kind.sparse else common_drive(self.y, self.state["reference"])

    def u(self) -> Expression:
        return equations.label_input(self.labels, self.state["R"].shape[0], self.kind.dtype)

    def gains(self, activity: Expression, epsilon: Expression) -> tuple[Expression, Expression]:
        if has_kernels(self.kind.backend):
            gains, forgotten = kernels.Gains(self.kind.rule)(activity, epsilon)
            return forgotten, gains
        return equations.MINIBATCH_RULES[self.kind.rule](activity, epsilon)

    def updates_of_W(self, forgotten: Expression, gains: Expression) -> dict[str, Expression]:
        W, log_W, W_sum, reference = (self.state[name] for name in ("W", "log_W", "W_sum", "reference"))
        if has_kernels(self.kind.backend) and not self.kind.sparse:
            new = kernels.UpdateW()(W, log_W, W_sum, reference, forgotten, gains.T @ self.y)
            return dict(zip(("W", "log_W", "W_sum"), new, strict=True))
        background = gains.sum(axis=0)  # the +1 of T1.3
        if has_kernels(self.kind.backend):
            new_W = sparse_kernels.SparseUpdate()(W, forgotten, background, gains, *self.points)
            new_log_W, new_W_sum, log_W_sum = sparse_kernels.LogOfWeights()(log_W, new_W, reference)
            return {"W": new_W, "log_W": new_log_W, "W_sum": new_W_sum, "log_W_sum": log_W_sum}
        if self.kind.sparse:
            new_W = sparse_kernels.sparse_update(W, forgotten, background, gains, *self.points)
        else:
            new_W = equations.update_W(W, forgotten, gains, self.y)
        new_log_W = pt.log(new_W) - reference[None, :]
        sums = {"W_sum": new_W.sum(axis=1, dtype="float64")}
        if self.kind.sparse:
            sums["log_W_sum"] = new_log_W.sum(axis=1, dtype="float64")
        return {"W": new_W.astype(self.kind.dtype), "log_W": new_log_W.astype(self.kind.dtype), **sums}


@cache
def _training_step(kind: GraphKind, learn: str) -> CompiledFunction:
    graph = _Graph(kind)
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=kind.dtype), pt.vector("epsilon_R", dtype=kind.dtype)
    threshold = pt.scalar("threshold", dtype=kind.dtype)
    s, log_likelihood = graph.activities()
    updates: dict[str, Expression] = {}
    self_labeled = pt.zeros((), dtype="float64")
    if "R" in learn:
        R = graph.state["R"]
        inferred = equations.inferred_class(s, R, graph.members.shape[0])
        t, self_labeled = taught_classes(graph.u(), graph.labels, inferred, threshold, epsilon_R)
        forgotten, gains = equations.MINIBATCH_RULES[kind.rule](t, epsilon_R)  # K columns: nothing to speed up
        updates["R"] = equations.update_R(R, forgotten, gains, s).astype(kind.dtype)
    if "W" in learn:
        updates |= graph.updates_of_W(*graph.gains(s, epsilon_W))
    inputs = [*graph.points, graph.labels, epsilon_W, epsilon_R, graph.A, graph.members, graph.recurrent, threshold]
    return CompiledFunction(
        "the training step", kind.backend, inputs, [log_likelihood, self_labeled], graph.state, updates
    )


def top_down_tables(R: Expression, recurrent: Expression, dtype: str) -> tuple[Expression, Expression]:
    """The top-down term of T1.5 as the network uses it (zero if it is not recurrent), and as the likelihood does.

    One row for every label, log R_kc, and a last row for points without: log mean_k R_kc.
    """
    log_prior = pt.concatenate([pt.log(R), pt.log(R.mean(axis=0, keepdims=True))]).astype(dtype)
    return pt.where(recurrent, log_prior, 0).astype(dtype), log_prior


def common_drive(y: Expression, reference: Expression) -> Expression:
    """sum_d y_d b_d of every point, in float64."""
    return (y * reference[None, :]).sum(axis=1, dtype="float64")


def taught_classes(
    u: Expression, labels: Expression, inferred: Expression, threshold: Expression, epsilon_R: Expression
) -> tuple[Expression, Expression]:
    """What the second layer learns from, and the number of points that the network labeled itself."""
    self_labels = equations.self_label(inferred, threshold)
    unlabeled = pt.lt(labels, 0) & pt.gt(epsilon_R, 0)  # a learning rate of zero marks points that only fill a batch
    count = (self_labels.sum(axis=1) * unlabeled).sum(dtype="float64")
    return equations.teaching_signal(u, labels, self_labels), count


@cache
def _inference(kind: GraphKind) -> CompiledFunction:
    graph = _Graph(kind)
    s, log_likelihood = graph.activities()
    t = equations.second_hidden(s, graph.state["R"], graph.u(), graph.labels, graph.members.shape[0])
    inputs: list[Any] = [*graph.points, graph.labels, graph.A, graph.members, graph.recurrent]
    return CompiledFunction("inference", kind.backend, inputs, [s, t, log_likelihood], graph.state)
