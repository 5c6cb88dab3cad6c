"""Who is whose neighbour, if nobody has the candidates of all points.

As `truncated_search.Neighbours`: a unit's neighbours are those that share most points with it. Every part of the data
counts its own votes; their sums, and who was seen first, decide as if the parts were one.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pytensor.tensor as pt
from numba import njit
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines.backend import CompiledFunction
from nesi.engines.kernels import register_kernel


class Votes(NamedTuple):
    """One entry per pair of units that have points in common."""

    unit: np.ndarray
    other: np.ndarray
    votes: np.ndarray
    seen: np.ndarray  # where, in the whole data, they were first seen together

    def part(self, first: int, last: int) -> Votes:
        """Those of units first to last."""
        some = slice(*np.searchsorted(self.unit, [first, last]))
        return Votes(*(values[some] for values in self))

    @property
    def nbytes(self) -> int:
        return sum(values.nbytes for values in self)


def count_votes(units: np.ndarray, rows: np.ndarray, C: int) -> Votes:
    """From the candidates of some points (and members), which have these rows in the whole data."""
    return Votes(*_counting()({}, units, rows, np.array([C], "int64")))


def elected(neighbours: np.ndarray, first: int, last: int, parts: list[Votes]) -> np.ndarray:
    """The neighbours of units first to last; a unit that wins no point keeps its old ones."""
    unit, other, votes, seen = (np.concatenate(values) for values in zip(*parts, strict=True))
    result = neighbours[first:last].copy()
    if not len(unit):
        return result
    pairs, place = np.unique(unit.astype(np.int64) * len(neighbours) + other, return_inverse=True)
    total = np.bincount(place, weights=votes)
    earliest = np.full(len(pairs), np.iinfo(np.int64).max)
    np.minimum.at(earliest, place, seen)
    winner, neighbour = np.divmod(pairs, len(neighbours))
    order = np.lexsort((earliest, -total, winner))
    winner, neighbour = winner[order], neighbour[order]
    rank = np.arange(len(winner)) - np.searchsorted(winner, winner)
    chosen = rank < neighbours.shape[1]
    result[winner[chosen] - first, rank[chosen]] = neighbour[chosen]
    return result


class CountVotes(Op):
    """(units, rows, [C]) -> unit, other, votes, seen."""

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.lvector() for _ in range(4)])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        for storage, value in zip(output_storage, _count_kernel.py_func(*inputs), strict=True):
            storage[0] = value


@njit
def _count_kernel(units, rows, C):  # type: ignore[no-untyped-def]
    n_points, size = units.shape
    n_units = C[0]
    starts = np.zeros(n_units + 1, dtype=np.int64)
    for n in range(n_points):
        starts[units[n, 0] + 1] += 1
    for c in range(n_units):
        starts[c + 1] += starts[c]
    next_place = starts[:-1].copy()
    won = np.empty(n_points, dtype=np.int64)
    for n in range(n_points):
        won[next_place[units[n, 0]]] = n
        next_place[units[n, 0]] += 1
    last_winner = np.full(n_units, -1, dtype=np.int64)
    count = 0
    for c in range(n_units):
        for i in range(starts[c], starts[c + 1]):
            for rank in range(1, size):
                other = units[won[i], rank]
                if last_winner[other] != c:
                    last_winner[other] = c
                    count += 1
    unit, others = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    votes, seen = np.zeros(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    last_winner[:] = -1
    place = np.empty(n_units, dtype=np.int64)
    count = 0
    for c in range(n_units):
        for i in range(starts[c], starts[c + 1]):
            for rank in range(1, size):
                other = units[won[i], rank]
                if last_winner[other] != c:
                    last_winner[other], place[other] = c, count
                    unit[count], others[count], seen[count] = c, other, rows[won[i]] * size + rank
                    count += 1
                votes[place[other]] += size - rank
    return unit, others, votes, seen


@cache
def _counting() -> CompiledFunction:
    units, rows, C = pt.imatrix("units"), pt.lvector("rows"), pt.lvector("C")
    return CompiledFunction("the votes of units", "numba", [units, rows, C], CountVotes()(units, rows, C), {})


register_kernel(CountVotes, lambda op: _count_kernel, _count_kernel)
