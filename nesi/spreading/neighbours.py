"""The nearest neighbours of every point by the cosine of the inputs, itself included."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import normalize

_MANY = 20000  # dense points from which on looking at all pairs takes longer than an index


def nearest_neighbours(X: Any, n_neighbours: int) -> tuple[np.ndarray, np.ndarray]:
    """Distances (1 - cosine) and points, nearest first, the point itself among them.

    Of many dense points an approximate index finds nearly all neighbours in a fraction of the time, if it is installed
    (nesi[neighbours]).
    """
    rows = normalize(sp.csr_array(X) if sp.issparse(X) else np.asarray(X, dtype=np.float32))
    wanted = min(n_neighbours + 1, rows.shape[0])
    if rows.shape[0] >= _MANY and not sp.issparse(rows) and find_spec("pynndescent") is not None:
        return _approximate(rows, wanted)
    search = NearestNeighbors(n_neighbors=wanted, metric="cosine", algorithm="brute", n_jobs=1).fit(rows)
    distances, points = search.kneighbors(rows)
    return distances, points


def _approximate(rows: np.ndarray, wanted: int) -> tuple[np.ndarray, np.ndarray]:
    from pynndescent import NNDescent

    # On rows of length 1 the Euclidean distance has the same order, and is faster to compute.
    points, distances = NNDescent(rows, metric="euclidean", n_neighbors=wanted, random_state=0).neighbor_graph
    itself = np.arange(len(rows))[:, None]  # in place of neighbours that were not found, which the index calls -1
    return np.where(points < 0, 1.0, np.square(distances) / 2), np.where(points < 0, itself, points)
