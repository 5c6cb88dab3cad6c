"""The search for parts of least energy on the small copy of the graph, from many starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.cluster import KMeans

from nesi.spreading.coarse import CoarseGraph
from nesi.spreading.kernels import balanced_function

_STARTS = 20
_EIGENVECTORS = (1, 1.5, 2, 3)  # for each part, in turn: more of them see finer groups
_STEPS = (16, 4, 2)  # of the walk between two divisions: first far, then near
_ROUNDS = 20
_REBUILT = 3  # of the best starts have parts divided and joined
_TRIALS = 40  # to divide one part and join two others
_LEAST_GAIN = 1e-6  # of energy
_LEAST_MEMBERSHIP = 1e-9


class Found(NamedTuple):
    parts: np.ndarray  # of every node
    misses: int  # parts that have far less or far more than their share
    energy: float


class Search:
    """Parts with the given shares, more or less."""

    def __init__(self, coarse: CoarseGraph, shares: np.ndarray, slack: float, rng: np.random.Generator) -> None:
        self._coarse, self._shares, self._slack, self._rng = coarse, shares, slack, rng
        self._walks = [coarse.walk(steps) for steps in _STEPS]

    @property
    def _n_parts(self) -> int:
        return len(self._shares)

    def partitions(self) -> list[Found]:
        """What was found from every start, the best first."""
        found = sorted((self._settled(self._groups(number)) for number in range(_STARTS)), key=_rank)
        rebuilt = [self._rebuilt(start) for start in found[:_REBUILT]]
        return sorted([*rebuilt, *found[_REBUILT:]], key=_rank)

    def _groups(self, number: int) -> np.ndarray:
        """A start: groups in the space of some eigenvectors."""
        factor = _EIGENVECTORS[number % len(_EIGENVECTORS)]
        places = self._coarse.places[:, : max(1, round(factor * self._n_parts))]
        directions = places / np.maximum(np.linalg.norm(places, axis=1, keepdims=True), 1e-12)
        return self._k_means(directions, self._n_parts, self._coarse.sizes)

    def _k_means(self, places: np.ndarray, n_groups: int, sizes: np.ndarray) -> np.ndarray:
        seed = int(self._rng.integers(2**31))
        found: np.ndarray = KMeans(n_groups, n_init=1, random_state=seed).fit(places, sample_weight=sizes).labels_
        return found

    def _settled(self, parts: np.ndarray) -> Found:
        """After balanced rounds and single moves."""
        for walk in self._walks:
            for _ in range(_ROUNDS):
                u = np.maximum(walk @ np.eye(self._n_parts, dtype=np.float32)[parts], _LEAST_MEMBERSHIP)
                (new,) = balanced_function()({}, u, self._coarse.sizes, self._shares, np.asarray(self._slack))
                settled = bool((new == parts).all())
                parts = new
                if settled:
                    break
        parts = self._with_single_moves(parts)
        ratio = np.bincount(parts, self._coarse.sizes, self._n_parts) / self._shares
        misses = int(np.sum(np.abs(ratio - 1) > 2 * self._slack))
        return Found(parts, misses, self._coarse.energy(parts, self._n_parts))

    def _with_single_moves(self, parts: np.ndarray) -> np.ndarray:
        """Move one node at a time, the one that lowers the energy most, while all parts keep their share."""
        flow, sizes, nodes = self._coarse.flow, self._coarse.sizes, np.arange(len(parts))
        least, most = self._shares * (1 - self._slack), self._shares * (1 + self._slack)
        parts, to_itself = parts.copy(), np.diag(flow)
        members = np.eye(self._n_parts)[parts]
        to_parts, totals = flow @ members, sizes @ members
        for _ in range(10 * len(parts)):
            gain = to_parts - (to_parts[nodes, parts] - to_itself)[:, None]
            gain[nodes, parts] = 0
            gain[totals + sizes[:, None] > most] = 0
            gain[totals[parts] - sizes < least[parts]] = 0
            node, part = np.unravel_index(gain.argmax(), gain.shape)
            if gain[node, part] <= _LEAST_GAIN / len(parts):
                break
            old, parts[node] = parts[node], part
            to_parts[:, old] -= flow[:, node]
            to_parts[:, part] += flow[:, node]
            totals[old] -= sizes[node]
            totals[part] += sizes[node]
        return parts

    def _rebuilt(self, found: Found) -> Found:
        """Divide one part in two and join two others, where that lowers the energy.

        What single moves cannot leave are partitions with two classes in one part, and one class in two parts.
        """
        while True:
            for parts in self._rebuildings(found.parts):
                trial = self._settled(parts)
                if trial.misses <= found.misses and trial.energy < found.energy - _LEAST_GAIN:
                    found = trial
                    break
            else:
                return found

    def _rebuildings(self, parts: np.ndarray) -> list[np.ndarray]:
        """Trials, the most promising first."""
        coarse, n_parts = self._coarse, self._n_parts
        halves, cuts = [], np.full(n_parts, np.inf)
        for part in range(n_parts):
            nodes = np.flatnonzero(parts == part)
            half = nodes
            if len(nodes) > 1:
                second = self._k_means(coarse.places[nodes], 2, coarse.sizes[nodes]) == 1
                half = nodes[second]
                cuts[part] = coarse.flow[np.ix_(half, nodes[~second])].sum()
            halves.append(half)
        members = np.eye(n_parts)[parts]
        between = members.T @ (coarse.flow @ members)
        one, other = np.triu_indices(n_parts, 1)
        costs = cuts[:, None] - between[one, other]
        costs[one, np.arange(len(one))] = costs[other, np.arange(len(one))] = np.inf  # joined parts are not divided
        trials = []
        for trial in np.argsort(costs, axis=None)[:_TRIALS]:
            divided, pair = np.unravel_index(trial, costs.shape)
            if np.isinf(costs[divided, pair]):
                break
            new = parts.copy()
            new[new == one[pair]] = other[pair]
            new[halves[divided]] = one[pair]
            trials.append(new)
        return trials


def _rank(found: Found) -> tuple[int, float]:
    """Where the graph falls into pieces, shares may be out of reach, and one large part would have the least energy."""
    return found.misses, found.energy
