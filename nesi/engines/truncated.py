"""The truncated engine: posteriors that are exact on a few units per point and zero elsewhere.

Of 10000 units hardly more than a dozen have anything to say about a point. The engine keeps these candidates for
every point, improves them a little in every iteration (Search), and updates only the units that were active
(UpdateActiveRows): the cost of a pass over the data no longer grows with C. What it maximises is the free energy of
the truncated posterior, a lower bound of the log-likelihood that is tight when the candidates are the right ones.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp

from nesi import equations
from nesi.config.network_parameters import TruncatedOptions
from nesi.engines import sparse_kernels, truncated_search, truncated_update
from nesi.engines.backend import CompiledFunction, Expression, has_kernels, state_variable
from nesi.engines.contract import StepInfo
from nesi.engines.exact import as_arrays
from nesi.engines.exact_graph import common_drive
from nesi.engines.specification import GraphSpec, NetworkSpec
from nesi.engines.top_down import SparseActivities, TopDown, mean_of_members
from nesi.engines.weights import Weights
from nesi.errors import NesiError
from nesi.observations import Observations, Points

_MOST_LABELED_AT_ONCE = 1000  # points, if their labels are not just classes
_START_VALUES = 10_000_000  # drives, or inputs, in memory at once while the first candidates are looked for
_INPUTS_AT_ONCE = 16_000_000  # inputs of dense points that are floats at once when all points are gone through


class Candidates(NamedTuple):
    """The truncated posteriors of some points; in a committee one row for each of its members, point by point."""

    units: np.ndarray  # best first
    s: np.ndarray
    bound: np.ndarray  # of the log-likelihood, without the Gamma term


class TruncatedEngine(Weights):
    """Weights of one network, the candidates of all points, and the compiled functions that use them."""

    def __init__(
        self,
        spec: NetworkSpec,
        W: np.ndarray,
        R: np.ndarray,
        normalization: float,
        threshold: float,
        data: Observations,
        labels: np.ndarray,
        rng: np.random.Generator,
        settings: TruncatedOptions | None = None,
    ) -> None:
        if not has_kernels(spec.backend):
            raise NesiError(f"Truncated inference needs the backend numba, but the backend is {spec.backend}.")
        self._spec, self._data, self._labels, self._rng = spec, data, labels, rng
        self._A = np.asarray(normalization, "float64")
        self._network_inputs = spec.network_inputs(threshold)
        self._G, C = spec.committee, len(W) // spec.committee
        self._settings = settings or TruncatedOptions()
        self._size = min(self._settings.active, C)
        self._leaders = min(self._settings.leaders, self._size)
        self._units: np.ndarray | None = None
        self._neighbours = np.full((len(W), min(self._settings.neighbours, C - 1)), -1, dtype=np.int32)
        super().__init__(W, R, spec.dtype, spec.sparse)

    # ---- learning ------------------------------------------------------------------------------------------------

    def step(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        learn: str = "WR",
        indices: np.ndarray | None = None,
    ) -> StepInfo:
        """T1.7 and T1.8 over the points with the given indices in the training data."""
        if indices is None:
            raise NesiError("The truncated engine learns from its training data: give the indices of the points.")
        units = self._current_units()
        dtype = self._spec.dtype
        rates = [np.asarray(epsilon_W, dtype), np.asarray(epsilon_R, dtype)]
        function = _training_step(self._spec.graph, learn, self._leaders)
        inputs = self._search_inputs(points, labels, self._rows(units, indices))
        chosen, _, bound, self_labeled = function(self.arrays, *inputs, *rates, self._network_inputs[1])
        units[indices] = chosen.reshape(len(indices), -1)
        return StepInfo(bound, int(self_labeled))

    def end_iteration(self) -> None:
        """Learn the neighbourhoods from the candidates of all points; as for the rest see `ExactEngine`."""
        self.compute_derived()
        rows = self._current_units().reshape(-1, self._size)
        (self._neighbours,) = _neighbourhoods()({}, self._neighbours, rows)

    def settle(self) -> None:
        """One last search with the final weights."""
        self.candidates(np.arange(self._data.n_points))

    # ---- inference -------------------------------------------------------------------------------------------------

    def activities(self, data: Observations) -> sp.csr_array:
        """T1.4 on the candidates of the training points; one row per point and member of the committee."""
        if data is not self._data:
            raise ValueError("the truncated engine has candidates for its own training data only")
        found = self.candidates(np.arange(data.n_points), search=False)
        starts = np.arange(len(found.units) + 1) * found.units.shape[1]
        return sp.csr_array((found.s.ravel(), found.units.ravel(), starts), shape=(len(starts) - 1, len(self.W)))

    def candidates(self, indices: np.ndarray, search: bool = True) -> Candidates:
        """E-step for points of the training data: learn nothing and, with `search`, look for better candidates."""
        if len(indices) > self._at_once:
            parts = np.array_split(indices, -(-len(indices) // self._at_once))
            found = [self.candidates(part, search) for part in parts]
            return Candidates(*(np.concatenate(values) for values in zip(*found, strict=True)))
        units = self._current_units()
        points = self._data.take(indices, self._spec.dtype)
        inputs = self._search_inputs(points, self._labels[indices], self._rows(units, indices), search)
        candidates = Candidates(*_e_step(self._spec.graph, self._leaders)(self.arrays, *inputs))
        units[indices] = candidates.units.reshape(len(indices), -1)
        return candidates

    @property
    def _at_once(self) -> int:
        """Points that may be in memory as floats at once; the data itself may be bytes, and large."""
        data = self._data
        most = data.n_points if data.sparse else max(1, _INPUTS_AT_ONCE // data.n_features)
        return min(most, _MOST_LABELED_AT_ONCE) if self._spec.graph.soft else most  # a label is a row of a table

    # ---- candidates --------------------------------------------------------------------------------------------

    def _current_units(self) -> np.ndarray:
        """One row per point: the candidates of the first member of a committee, then those of the second, ...

        One exact pass finds the first candidates: without it the search would start from nowhere.
        """
        if self._units is None:
            n_points = self._data.n_points
            self._units = np.empty((n_points, self._G * self._size), dtype=np.int32)
            widest = len(self.W) if self._data.sparse else max(len(self.W), self._data.n_features)
            size = max(1, _START_VALUES // widest)
            for first in range(0, n_points, size):
                chunk = np.arange(first, min(first + size, n_points))
                arrays = as_arrays(self._data.take(chunk, self._spec.dtype))
                rows = self._rows(self._units, chunk)
                label_inputs = self._spec.label_inputs(self._labels[chunk], len(self.R))
                inputs = [*arrays, *label_inputs, self._A, self._network_inputs[0], rows]
                (best,) = _best_units(self._spec.graph)(self.arrays, *inputs)
                self._units[chunk] = best.reshape(len(chunk), -1)
            self.end_iteration()
        return self._units

    def _rows(self, units: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """One row per point and member."""
        return units[indices].reshape(-1, self._size)

    def _search_inputs(self, points: Points, labels: np.ndarray, units: np.ndarray, search: bool = True) -> list[Any]:
        rows, size = units.shape
        C = len(self.W) // self._G
        n_strangers = self._settings.strangers if search else 0
        strangers = self._rng.integers(C, size=(rows, n_strangers), dtype=np.int32)
        strangers += C * (np.arange(rows, dtype=np.int32) % self._G)[:, None]  # each from the member's own units
        neighbours = self._neighbours if search else self._neighbours[:, :0]
        starts = np.arange(rows + 1, dtype=np.int64) * size
        label_inputs = self._spec.label_inputs(labels, len(self.R))
        search_inputs = [units, neighbours, strangers, starts]
        return [*as_arrays(points), *label_inputs, self._A, self._network_inputs[0], *search_inputs]

    def state(self) -> dict[str, np.ndarray]:
        return {"units": self._current_units(), "neighbours": self._neighbours}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        expected = {"units": (self._data.n_points, self._G * self._size), "neighbours": self._neighbours.shape}
        for name, shape in expected.items():
            if name not in state or state[name].shape != shape:
                raise NesiError(
                    f"The saved candidates ({name}) do not belong to this network: start this run from scratch."
                )
        self._units = np.array(state["units"], dtype=np.int32)
        self._neighbours = np.array(state["neighbours"], dtype=np.int32)


# ---- graphs ------------------------------------------------------------------------------------------------


class _Graph:
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
def _training_step(spec: GraphSpec, learn: str, leaders: int) -> CompiledFunction:
    graph = _Graph(spec)
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
def _e_step(spec: GraphSpec, leaders: int) -> CompiledFunction:
    graph = _Graph(spec)
    return CompiledFunction(
        "the truncated E-step", spec.backend, graph.search_inputs, graph.search(leaders), graph.state
    )


@cache
def _best_units(spec: GraphSpec) -> CompiledFunction:
    """The first candidates, from the drives of all units."""
    graph = _Graph(spec)
    if spec.sparse:
        drive = sparse_kernels.SparseDot()(*graph.points, graph.state["log_W"]) + graph.state["log_W_sum"][None, :]
    else:
        drive = equations.bottom_up_drive(graph.seen[0], graph.state["log_W"])
    feedback, _ = graph.top_down.tables(graph.recurrent, "float64")
    chosen = truncated_search.BestUnits()(drive, feedback, graph.top_down.labels, graph.units)
    inputs = [*graph.points, *graph.top_down.inputs, graph.A, graph.recurrent, graph.units]
    return CompiledFunction("the start of the search", spec.backend, inputs, [chosen], graph.state)


@cache
def _neighbourhoods() -> CompiledFunction:
    neighbours, units = pt.imatrix("neighbours"), pt.imatrix("units")
    # A copy goes in: inputs of a compiled function stay as they are.
    result = truncated_search.Neighbours()(neighbours.copy(), units)
    return CompiledFunction("the neighbourhoods of units", "numba", [neighbours, units], [result], {})
