"""A small copy of the graph: points that walks can hardly tell apart are one node.

The energy of a partition is the same in the copy, as long as no node is divided, and the copy is small enough for dense
arrays. So many partitions can be tried on it in the time that one takes on the graph.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import MiniBatchKMeans

from nesi.spreading.graph import Graph

_FEWEST, _MOST = 200, 2000  # nodes, if there are as many points
_POINTS_OF_A_NODE = 4  # between these limits
_EIGENVECTORS = 60  # at least
_MORE_POINTS = 0.3  # times the mean size of a unit
_SHARPNESS = 4  # power of the eigenvalues that weighs their vectors: walks of some steps forget the smaller ones
_POINTS_FOR_NODES = 20000  # are enough to find the nodes
_TINY = float(np.finfo(np.float32).tiny)


class CoarseGraph:
    """Nodes instead of points."""

    def __init__(self, graph: Graph, n_parts: int, rng: np.random.Generator, n_nodes: int | None = None) -> None:
        n_nodes = n_nodes or min(max(graph.n_points // _POINTS_OF_A_NODE, _FEWEST), _MOST)
        places = _places(graph, max(_EIGENVECTORS, 2 * n_parts), rng)
        self.node = _nodes(places, n_nodes, rng)  # of every point
        counts = np.bincount(self.node)
        self.places = np.stack([np.bincount(self.node, column) / counts for column in places.T], axis=1)
        #: The share of all walks that begin in one node and end in another after one step.
        self.flow = _flow(graph, self.node)
        self.sizes = self.flow.sum(axis=1)

    def walk(self, steps: int) -> np.ndarray:
        """The probability of being in another node after some steps, a row for each node."""
        one_step = (self.flow / self.sizes[:, None]).astype(np.float32)
        return np.asarray(np.linalg.matrix_power(one_step, steps))

    def energy(self, parts: np.ndarray, n_parts: int) -> float:
        members = np.eye(n_parts)[parts]
        return float(1 - np.sum(members * (self.flow @ members)))


def _places(graph: Graph, n_vectors: int, rng: np.random.Generator) -> np.ndarray:
    """Points in the space of the leading eigenvectors of the walk, where those that lead to the same points are close.

    In a large graph the leading ones would belong to tiny groups that hardly any walk leaves. So every unit also leads
    to all others, as often as it would with some more points.
    """
    extra = _MORE_POINTS * float(graph.unit_sizes.mean())
    scale = (1 / np.sqrt(graph.unit_sizes + extra)).astype(np.float32)
    to_points, to_units = sp.csr_array(graph.S), sp.csr_array(graph.S.T)

    def step(v: np.ndarray) -> np.ndarray:
        scaled = scale * v.ravel().astype(np.float32)
        return scale * (to_units @ (to_points @ scaled) + np.float32(extra * scaled.mean()))

    n_units = len(scale)
    walk = LinearOperator((n_units, n_units), matvec=step, dtype=np.float32)
    if n_units <= 2 * n_vectors:
        values, vectors = np.linalg.eigh(walk @ np.eye(n_units, dtype=np.float32))
    else:
        values, vectors = eigsh(walk, k=n_vectors, which="LA", tol=1e-3, v0=rng.random(n_units).astype(np.float32))
    leading = np.argsort(-values)[1 : n_vectors + 1]  # the first is the same for all points
    weights = (np.maximum(values[leading], _TINY) / max(values[leading[:1]].max(initial=_TINY), _TINY)) ** _SHARPNESS
    return np.asarray(to_points @ (scale[:, None] * vectors[:, leading]) * (weights * np.sqrt(graph.n_points)))


def _nodes(places: np.ndarray, n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    n_points, seed = len(places), int(rng.integers(2**31))
    if n_points <= n_nodes:
        return np.arange(n_points)
    some = places[rng.choice(n_points, min(n_points, _POINTS_FOR_NODES), replace=False)]
    groups = MiniBatchKMeans(n_nodes, batch_size=4096, n_init=1, max_iter=30, init="random", random_state=seed)
    found: np.ndarray = np.unique(groups.fit(some).predict(places), return_inverse=True)[1]
    return found


def _flow(graph: Graph, node: np.ndarray) -> np.ndarray:
    n_points = len(node)
    members = sp.csr_array((np.ones(n_points, np.float32), (np.arange(n_points), node)))
    to_nodes = sp.csr_array(graph.S.T @ members)
    from_nodes = sp.csr_array(to_nodes.T)
    from_nodes.data = from_nodes.data / np.maximum(graph.unit_sizes, _TINY)[from_nodes.indices]
    return np.asarray((from_nodes @ to_nodes).toarray(), dtype=np.float64) / n_points
