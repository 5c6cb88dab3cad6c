"""The graph that labels travel over: points are neighbours if they share units.

S holds a distribution over units for every point, so that S D^-1 S^T with D = diag(S^T 1) is a walk from a point to one
of its units and on to one of that unit's points. The units are those of trained first layers, or the training points
themselves, each of which stands for its nearest neighbours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from nesi.spreading.kernels import walk_function
from nesi.spreading.neighbours import nearest_neighbours

_NEIGHBOURS = 10
_LEAST_SIMILARITY = 1e-6


class Graph:
    """A walk over points, which leaves every distribution over classes a distribution."""

    def __init__(self, S: sp.csr_array) -> None:
        """Rows of S sum to 1."""
        self.S = sp.csr_array(S, dtype=np.float32)
        self.unit_sizes = np.asarray(self.S.sum(axis=0), dtype=np.float64).ravel()
        to_units = sp.csr_array(self.S.T)
        sizes = np.repeat(self.unit_sizes, np.diff(to_units.indptr))
        to_units.data = (to_units.data / np.maximum(sizes, np.finfo(np.float32).tiny)).astype(np.float32)
        self._arrays = [part for matrix in (to_units, self.S) for part in _parts(matrix)]

    @property
    def n_points(self) -> int:
        return int(self.S.shape[0])

    def walk(self, u: np.ndarray, steps: int = 1, sources: np.ndarray | None = None) -> np.ndarray:
        """u after some steps; the sources are added at every step."""
        u = np.ascontiguousarray(u, dtype=np.float32)
        sources = np.zeros_like(u) if sources is None else np.ascontiguousarray(sources, dtype=np.float32)
        (after,) = walk_function()({}, *self._arrays, u, sources, np.asarray(steps))
        return np.asarray(after)

    def energy(self, classes: np.ndarray, n_classes: int) -> float:
        """The share of walks that leave their class in one step."""
        stays = self.walk(one_hot(classes, n_classes))[np.arange(self.n_points), classes]
        return float(1 - stays.mean(dtype=np.float64))


def graph_of_units(activities: sp.csr_array, committee: int) -> Graph:
    """From the activities of first layers, one row per point and member of the committee."""
    rows = sp.csr_array(activities)
    members = [rows[member::committee] for member in range(committee)]  # each has units of its own
    S = members[0] if committee == 1 else sum(members[1:], members[0])
    return Graph(_with_rows_that_sum_to_one(sp.csr_array(S)))


def graph_of_neighbours(X: Any, n_neighbours: int = _NEIGHBOURS) -> Graph:
    """From the nearest neighbours of every point, by the cosine of the inputs; a point is a neighbour of itself."""
    distances, neighbours = nearest_neighbours(X, n_neighbours)
    similarity = np.maximum(1 - distances, _LEAST_SIMILARITY).ravel()
    n_points, wanted = neighbours.shape
    row_starts = np.arange(n_points + 1) * wanted
    S = sp.csr_array((similarity, neighbours.ravel(), row_starts), shape=(n_points, n_points))
    return Graph(_with_rows_that_sum_to_one(S))


def one_hot(classes: np.ndarray, n_classes: int) -> np.ndarray:
    return np.eye(n_classes, dtype=np.float32)[classes]


def _with_rows_that_sum_to_one(S: sp.csr_array) -> sp.csr_array:
    total = np.asarray(S.sum(axis=1)).ravel()
    S.data = S.data / np.repeat(total, np.diff(S.indptr))
    return S


def _parts(matrix: sp.csr_array) -> list[np.ndarray]:
    return [matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)]
