"""The graphs of the truncated engine."""

from __future__ import annotations

from functools import cache

import pytensor.tensor as pt

from nesi import equations
from nesi.engines import sparse_kernels, truncated_proposal, truncated_search, truncated_update
from nesi.engines.backend import CompiledFunction, Expression, state_variable
from nesi.engines.exact_graph import common_drive
from nesi.engines.specification import GraphSpec
from nesi.engines.top_down import SparseActivities, TopDown, mean_of_members


class TruncatedGraph:
    """The symbolic pieces that learning and the search share."""

    def __init__(self, spec: GraphSpec) -> None:
        self.spec = spec
        self.state = {name: state_variable(name, 2, spec.dtype) for name in ("W", "log_W", "R")}
        self.state |= {name: state_variable(name, 1, "float64") for name in ("W_sum", "log_W_sum")}
        self.state["reference"] = state_variable("reference", 1, spec.dtype)
        self.top_down = TopDown(spec, self.state["R"])
        self.A, self.recurrent = pt.dscalar("A"), pt.bscalar("recurrent")
        self.units, self.neighbours, self.strangers = (
            pt.imatrix("units"),
            pt.imatrix("neighbours"),
            pt.imatrix("strangers"),
        )
        self.starts = pt.lvector("starts")
        if spec.sparse:
            self.points = [pt.vector("x", dtype=spec.dtype), pt.lvector("columns"), pt.lvector("row_starts")]
            self.seen = self.points
        else:
            self.points = [pt.matrix("x", dtype=spec.dtype)]
            self.seen = [equations.observed_layer(equations.bottom_up_input(self.points[0]), self.A)]

    @property
    def search_inputs(self) -> list[Expression]:
        search = [self.units, self.neighbours, self.strangers, self.starts]
        return [*self.points, *self.top_down.inputs, self.A, self.recurrent, *search]

    def search(self, leaders: int) -> tuple[Expression, Expression, Expression]:
        op = truncated_search.Search(self.spec.sparse, leaders)
        weights = [self.state[name] for name in ("log_W", "log_W_sum", "W_sum")]
        tables, labels = self.top_down.tables(self.recurrent, "float64"), self.top_down.labels
        units, s, bound = op(*weights, *tables, labels, self.units, self.neighbours, self.strangers, *self.seen)
        bound = mean_of_members(bound[:, None], self.top_down.members)[:, 0] + self.top_down.evidence()
        if not self.spec.sparse:
            bound = bound + common_drive(self.seen[0], self.state["reference"])
        return units, s, bound


@cache
def training_step(spec: GraphSpec, learn: str, leaders: int) -> CompiledFunction:
    """T1.4 to T1.8 on the candidates."""
    graph = TruncatedGraph(spec)
    state, dtype = graph.state, spec.dtype
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=dtype), pt.vector("epsilon_R", dtype=dtype)
    threshold = pt.scalar("threshold", dtype=dtype)
    units, s, bound = graph.search(leaders)
    updates: dict[str, Expression] = {}
    self_labeled = pt.zeros((), dtype="float64")
    if "R" in learn:
        columns, rows = units.flatten().astype("int64"), pt.repeat(pt.arange(units.shape[0]), units.shape[1])
        activities = SparseActivities(graph.top_down, s.flatten(), columns, graph.starts, rows)
        t, self_labeled = graph.top_down.taught(activities.inferred_class(), threshold, epsilon_R)
        updates["R"] = equations.without_denormals(activities.updated_R(t, epsilon_R))
    if "W" in learn:
        names = ("W", "log_W", "W_sum", "log_W_sum")
        op = truncated_update.UpdateActiveRows(spec.rule, spec.sparse)
        before = [state[name] for name in (*names, "reference")]
        active = [rows_of.reshape((graph.top_down.labels.shape[0], -1)) for rows_of in (units, s)]
        updates |= zip(names, op(*before, epsilon_W, *active, *graph.seen), strict=True)
    inputs = [*graph.search_inputs, epsilon_W, epsilon_R, threshold]
    return CompiledFunction(
        "the truncated training step", spec.backend, inputs, [units, s, bound, self_labeled], state, updates
    )


@cache
def proposal_step(spec: GraphSpec, leaders: int) -> CompiledFunction:
    """The same for both layers, without changing anything."""
    graph = TruncatedGraph(spec)
    dtype = spec.dtype
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=dtype), pt.vector("epsilon_R", dtype=dtype)
    threshold = pt.scalar("threshold", dtype=dtype)
    units, s, bound = graph.search(leaders)
    active = [rows_of.reshape((graph.top_down.labels.shape[0], -1)) for rows_of in (units, s)]
    of_W = truncated_proposal.ProposedRows(spec.sparse)(graph.state["W"], epsilon_W, *active, *graph.seen)
    columns, rows = units.flatten().astype("int64"), pt.repeat(pt.arange(units.shape[0]), units.shape[1])
    activities = SparseActivities(graph.top_down, s.flatten(), columns, graph.starts, rows)
    t, self_labeled = graph.top_down.taught(activities.inferred_class(), threshold, epsilon_R)
    of_R = [step.astype(dtype) for step in activities.change_of_R(t, epsilon_R)]
    inputs = [*graph.search_inputs, epsilon_W, epsilon_R, threshold]
    outputs = [units, bound, self_labeled, *of_W, *of_R]
    return CompiledFunction("the truncated proposal", spec.backend, inputs, outputs, graph.state)


@cache
def e_step(spec: GraphSpec, leaders: int) -> CompiledFunction:
    """T1.4 on the candidates."""
    graph = TruncatedGraph(spec)
    return CompiledFunction(
        "the truncated E-step", spec.backend, graph.search_inputs, graph.search(leaders), graph.state
    )


@cache
def best_units(spec: GraphSpec) -> CompiledFunction:
    """The first candidates, from the drives of all units."""
    graph = TruncatedGraph(spec)
    if spec.sparse:
        drive = sparse_kernels.SparseDot()(*graph.points, graph.state["log_W"]) + graph.state["log_W_sum"][None, :]
    else:
        drive = equations.bottom_up_drive(graph.seen[0], graph.state["log_W"])
    feedback, _ = graph.top_down.tables(graph.recurrent, "float64")
    chosen = truncated_search.BestUnits()(drive, feedback, graph.top_down.labels, graph.units)
    inputs = [*graph.points, *graph.top_down.inputs, graph.A, graph.recurrent, graph.units]
    return CompiledFunction("the start of the search", spec.backend, inputs, [chosen], graph.state)


@cache
def neighbourhoods() -> CompiledFunction:
    """Which units are candidates for the same points."""
    neighbours, units = pt.imatrix("neighbours"), pt.imatrix("units")
    # A copy goes in: inputs of a compiled function stay as they are.
    result = truncated_search.Neighbours()(neighbours.copy(), units)
    return CompiledFunction("the neighbourhoods of units", "numba", [neighbours, units], [result], {})
