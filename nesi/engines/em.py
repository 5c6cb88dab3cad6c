"""Batch EM for the generative model (Section 2): what one E-step over all points adds up to, and the M-step.

The posterior p(c | y, l) of eqs. (PostC, Ic) is what the recurrent network computes (T1.4), so that the E-step is its
inference. Only sums over the points are kept: sum_n p(c | y) y_d for eq. (MstepW), and sum_n p(c, k | y, l) for eq.
(MstepR).
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytensor.tensor as pt

from nesi import equations
from nesi.engines import sparse_kernels
from nesi.engines.backend import CompiledFunction, Expression, State, has_kernels, state_variable
from nesi.engines.exact import ExactEngine
from nesi.engines.exact_graph import ExactGraph
from nesi.engines.specification import GraphSpec
from nesi.observations import Points


class ExpectedCounts:
    """Sums over the points that have been seen since the weights of the engine last changed."""

    def __init__(self, engine: ExactEngine) -> None:
        self._engine, dtype = engine, engine.spec.dtype
        self._counts: State = {
            "counts_W": np.zeros(engine.W.shape, dtype),
            "counts_R": np.zeros(engine.R.shape, "float64"),
        }

    def add(self, points: Points, labels: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
        """E-step for some points, which count `weights` times; returns their log-likelihood without the Gamma term."""
        engine = self._engine
        counts = np.ones(len(labels)) if weights is None else weights
        (log_likelihood,) = engine.call(_e_step(engine.spec.graph), points, labels, counts, self._counts)
        return np.asarray(log_likelihood)[: len(labels)]

    def m_step(self, A: float) -> tuple[np.ndarray, np.ndarray]:
        """Eqs. (MstepW, MstepR); what no point has taught anything stays as it was."""
        counts_W, counts_R = (np.asarray(self._counts[name], "float64") for name in ("counts_W", "counts_R"))
        W, R = np.array(self._engine.W), np.array(self._engine.R)
        for weights, counts, total in ((W, counts_W, A), (R, counts_R, 1.0)):
            sums = counts.sum(axis=1, keepdims=True)
            taught = sums[:, 0] > 0
            weights[taught] = total * counts[taught] / sums[taught]
        return W, R


@cache
def _e_step(spec: GraphSpec) -> CompiledFunction:
    graph = ExactGraph(spec)
    counts_W = state_variable("counts_W", 2, spec.dtype)
    counts_R = state_variable("counts_R", 2, "float64")
    counts_of_point = pt.vector("weights", dtype=spec.dtype)  # 0 marks a point that only fills a batch
    s, log_likelihood = graph.activities()
    top_down = graph.top_down
    weighted = s * counts_of_point[:, None]
    labeled = equations.is_labeled(top_down.labels)[:, None]
    # p(k | c, l) of eq. (PostK) is u for labeled points, and the same for all others: no need to have it for each.
    known = (pt.where(labeled, top_down.u(), 0).T @ weighted).astype("float64")
    inferred = top_down.class_given_unit() * pt.where(labeled, 0, weighted).sum(axis=0, dtype="float64")[None, :]
    updates = {"counts_W": _with_points(counts_W, weighted, graph), "counts_R": counts_R + known + inferred}
    inputs = [*graph.points, *top_down.inputs, counts_of_point, graph.A, graph.recurrent]
    state = {**graph.state, "counts_W": counts_W, "counts_R": counts_R}
    return CompiledFunction("the E-step of EM", spec.backend, inputs, [log_likelihood], state, updates)


def _with_points(counts: Expression, s: Expression, graph: ExactGraph) -> Expression:
    """counts + s^T y."""
    if not graph.spec.sparse:
        return (counts + s.T @ graph.y).astype(graph.spec.dtype)
    nothing, background = pt.zeros_like(s.sum(axis=0)), s.sum(axis=0)
    if has_kernels(graph.spec.backend):
        return sparse_kernels.SparseUpdate()(counts, nothing, background, s, *graph.points)
    return sparse_kernels.sparse_update(counts, nothing, background, s, *graph.points).astype(graph.spec.dtype)
