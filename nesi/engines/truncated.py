"""The truncated engine: posteriors that are exact on a few units per point and zero elsewhere.

Of 10000 units hardly more than a dozen have anything to say about a point. The engine keeps these candidates for
every point, improves them a little in every iteration (Search), and updates only the units that were active
(UpdateActiveRows): the cost of a pass over the data no longer grows with C. What it maximises is the free energy of
the truncated posterior, a lower bound of the log-likelihood that is tight when the candidates are the right ones.
"""

from __future__ import annotations

import tempfile
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from nesi.config.network_parameters import TruncatedOptions
from nesi.engines import first_candidates
from nesi.engines.backend import has_kernels
from nesi.engines.contract import StepInfo
from nesi.engines.exact import as_arrays
from nesi.engines.first_candidates import FirstCandidates
from nesi.engines.proposals import Proposal
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated_graph import e_step, neighbourhoods, proposal_step, training_step
from nesi.engines.weights import Weights
from nesi.errors import NesiError
from nesi.observations import Observations, Points

_MOST_LABELED_AT_ONCE = 1000  # points, if their labels are not just classes
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
        candidates_in: str = "memory",
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
        self._candidates_in = candidates_in
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
        function = training_step(self._spec.graph, learn, self._leaders)
        inputs = self._search_inputs(points, labels, self._rows(units, indices))
        chosen, _, bound, self_labeled = function(self.arrays, *inputs, *rates, self._network_inputs[1])
        units[indices] = chosen.reshape(len(indices), -1)
        return StepInfo(bound, int(self_labeled))

    def propose(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        indices: np.ndarray,
        strangers: np.ndarray | None,
    ) -> tuple[StepInfo, Proposal]:
        """What `step` would change, with these strangers; better candidates are kept."""
        units, dtype = self._current_units(), self._spec.dtype
        rates = [np.asarray(epsilon_W, dtype), np.asarray(epsilon_R, dtype)]
        inputs = self._search_inputs(points, labels, self._rows(units, indices), strangers=strangers)
        function = proposal_step(self._spec.graph, self._leaders)
        chosen, bound, self_labeled, *steps = function(self.arrays, *inputs, *rates, self._network_inputs[1])
        units[indices] = chosen.reshape(len(indices), -1)
        return StepInfo(bound, int(self_labeled)), Proposal(*steps)

    def share_weights_of(self, other: TruncatedEngine) -> None:
        """Several engines, each with points of its own, have the same weights."""
        self.arrays, self._neighbours = other.arrays, other.neighbours

    @property
    def size(self) -> int:
        """How many candidates a point has, for each member of the committee."""
        return self._size

    @property
    def neighbours(self) -> np.ndarray:
        return self._neighbours

    def search(self, indices: np.ndarray, strangers: np.ndarray) -> None:
        """Look for better candidates."""
        units = self._current_units()
        points = self._data.take(indices, self._spec.dtype)
        inputs = self._search_inputs(points, self._labels[indices], self._rows(units, indices), strangers=strangers)
        units[indices] = e_step(self._spec.graph, self._leaders)(self.arrays, *inputs)[0].reshape(len(indices), -1)

    def find_first_candidates(self) -> np.ndarray:
        """One row per point; who is whose neighbour is left to whoever knows the candidates of all points."""
        if self._units is None:
            self._units = self._new_table("int32")
            self._find_first()
        return self._units

    def end_iteration(self) -> None:
        """Learn the neighbourhoods from the candidates of all points; as for the rest see `ExactEngine`."""
        self.compute_derived()
        rows = self._current_units().reshape(-1, self._size)
        (self._neighbours,) = neighbourhoods()({}, self._neighbours, rows)

    def settle(self) -> None:
        """One last search with the final weights."""
        for part in self._parts(self._data.n_points):
            self.candidates(part)

    # ---- inference -------------------------------------------------------------------------------------------------

    def activities(self, data: Observations) -> sp.csr_array:
        """T1.4 on the candidates of the training points; one row per point and member of the committee."""
        if data is not self._data:
            raise ValueError("the truncated engine has candidates for its own training data only")
        s = self._new_table(self._spec.dtype)
        for part in self._parts(data.n_points):
            s[part] = self.candidates(part, search=False).s.reshape(len(part), -1)
        # As they are now: a further search would change them.
        units = self._new_table("int32")
        units[:] = self._current_units()
        starts = np.arange(s.size // self._size + 1) * self._size
        return sp.csr_array((s.ravel(), units.ravel(), starts), shape=(len(starts) - 1, len(self.W)))

    def candidates(self, indices: np.ndarray, search: bool = True) -> Candidates:
        """E-step for points of the training data: learn nothing and, with `search`, look for better candidates."""
        if len(indices) > self._at_once:
            parts = np.array_split(indices, -(-len(indices) // self._at_once))
            found = [self.candidates(part, search) for part in parts]
            return Candidates(*(np.concatenate(values) for values in zip(*found, strict=True)))
        units = self._current_units()
        points = self._data.take(indices, self._spec.dtype)
        inputs = self._search_inputs(points, self._labels[indices], self._rows(units, indices), search)
        candidates = Candidates(*e_step(self._spec.graph, self._leaders)(self.arrays, *inputs))
        units[indices] = candidates.units.reshape(len(indices), -1)
        return candidates

    def _parts(self, n_points: int) -> list[np.ndarray]:
        return np.array_split(np.arange(n_points), max(1, -(-n_points // self._at_once)))

    @property
    def _at_once(self) -> int:
        """Points that may be in memory as floats at once; the data itself may be bytes, and large."""
        data = self._data
        most = max(1, _INPUTS_AT_ONCE // data.n_features)
        if data.sparse:
            most = max(1, int(_INPUTS_AT_ONCE // max(data.bytes_per_point / 4, 1))) if data.on_disk else data.n_points
        return min(most, _MOST_LABELED_AT_ONCE) if self._spec.graph.soft else most  # a label is a row of a table

    # ---- candidates --------------------------------------------------------------------------------------------

    def _current_units(self) -> np.ndarray:
        """One row per point: the candidates of the first member of a committee, then those of the second, ...

        One exact pass finds the first candidates: without it the search would start from nowhere.
        """
        if self._units is None:
            self.find_first_candidates()
            self.end_iteration()
        assert self._units is not None
        return self._units

    def _find_first(self) -> None:
        assert self._units is not None
        if self._settings.start == "walk" and len(self.W) > first_candidates.SAMPLE:
            self._walk()
        else:
            self._start_from().find_best(self._data, self._labels, self._units)

    def _start_from(self) -> FirstCandidates:
        return FirstCandidates(self._spec, self.arrays, self._A, self._network_inputs[0])

    def _walk(self) -> None:
        """From the best of a sample of the units to better and better neighbours."""
        assert self._units is not None
        start = self._start_from()
        neighbours = start.neighbours_of_fields(min(first_candidates.NEIGHBOURS, len(self.W) - 1))
        self._neighbours[:] = neighbours[:, : self._neighbours.shape[1]]
        sample = start.of_some(np.arange(len(self.W))[:: -(-len(self.W) // first_candidates.SAMPLE)])
        n_points = self._data.n_points
        for first in range(0, n_points, self._at_once):
            chunk = np.arange(first, min(first + self._at_once, n_points))
            points = self._data.take(chunk, self._spec.dtype)
            units = sample.best(points, self._labels[chunk], np.empty((len(chunk), self._size), np.int32))
            for _ in range(first_candidates.ROUNDS):
                labels, nobody = self._labels[chunk], np.empty((len(chunk), 0), np.int32)
                inputs = self._search_inputs(points, labels, units, neighbours=neighbours, strangers=nobody)
                units = e_step(self._spec.graph, self._leaders)(self.arrays, *inputs)[0]
            self._units[chunk] = units

    def _new_table(self, dtype: str) -> np.ndarray:
        """One row per point, in memory or in a file that goes when the process does."""
        shape = (self._data.n_points, self._G * self._size)
        if self._candidates_in == "memory":
            return np.empty(shape, dtype)
        with tempfile.TemporaryFile() as file:
            return np.memmap(file, dtype, "w+", shape=shape)

    def _rows(self, units: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """One row per point and member."""
        return units[indices].reshape(-1, self._size)

    def _search_inputs(
        self,
        points: Points,
        labels: np.ndarray,
        units: np.ndarray,
        search: bool = True,
        neighbours: np.ndarray | None = None,
        strangers: np.ndarray | None = None,
    ) -> list[Any]:
        rows, size = units.shape
        C = len(self.W) // self._G
        if strangers is None:
            strangers = self.strangers(self._rng, len(labels), search)
        strangers = (
            strangers + C * (np.arange(rows, dtype=np.int32) % self._G)[:, None]
        )  # each from the member's own units
        if neighbours is None:
            neighbours = self._neighbours if search else self._neighbours[:, :0]
        starts = np.arange(rows + 1, dtype=np.int64) * size
        label_inputs = self._spec.label_inputs(labels, len(self.R))
        search_inputs = [units, neighbours, strangers, starts]
        return [*as_arrays(points), *label_inputs, self._A, self._network_inputs[0], *search_inputs]

    def strangers(self, rng: np.random.Generator, n_points: int, search: bool = True) -> np.ndarray:
        """Random units, one row per point and member."""
        shape = (n_points * self._G, self._settings.strangers if search else 0)
        return rng.integers(len(self.W) // self._G, size=shape, dtype=np.int32)

    def state(self) -> dict[str, np.ndarray]:
        return {"units": self._current_units(), "neighbours": self._neighbours}

    def restore(self, state: dict[str, np.ndarray]) -> None:
        expected = {"units": (self._data.n_points, self._G * self._size), "neighbours": self._neighbours.shape}
        for name, shape in expected.items():
            if name not in state or state[name].shape != shape:
                raise NesiError(
                    f"The saved candidates ({name}) do not belong to this network: start this run from scratch."
                )
        self._units = self._new_table("int32")
        self._units[:] = state["units"]
        self._neighbours = np.array(state["neighbours"], dtype=np.int32)
