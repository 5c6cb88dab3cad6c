"""Classes of points: spread from labels, balanced, or found without labels and then named."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.sparse.linalg import LinearOperator, eigsh
from sklearn.cluster import KMeans

from nesi.spreading.graph import Graph, one_hot
from nesi.spreading.kernels import balanced_function

_POISSON_STEPS = 300
_ROUNDS = 20
_NAMING_STEPS = 3
_LEAST_MEMBERSHIP = 1e-6
_SETTLED = 1e-4  # share of the points that still change their class
_MORE_POINTS = (1.0, 0.3, 0.0, 0.0)  # times the mean size of a unit, one for each start


def spread_from_labels(graph: Graph, labels: np.ndarray, n_classes: int) -> np.ndarray:
    """Poisson learning: labels are sources of their class, and sinks of all others.

    Unlike ordinary label propagation, it does not go flat with one label per class.
    """
    sources = _sources(labels, n_classes)
    return graph.walk(np.zeros_like(sources), _POISSON_STEPS, sources)


def _sources(labels: np.ndarray, n_classes: int) -> np.ndarray:
    labeled = np.flatnonzero(labels >= 0)
    known = one_hot(labels[labeled], n_classes)
    sources = np.zeros((len(labels), n_classes), dtype=np.float32)
    sources[labeled] = known - known.mean(axis=0)
    return sources


def balanced_rounds(
    graph: Graph, classes: np.ndarray, shares: np.ndarray, steps: int, slack: float, labels: np.ndarray | None = None
) -> np.ndarray:
    """Let classes walk and be divided again by their shares, until they settle.

    Labels are kept, and are sources meanwhile: the more there are, the more they have a say.
    """
    sources = None if labels is None else _sources(labels, len(shares))
    for _ in range(_ROUNDS):
        u = graph.walk(one_hot(classes, len(shares)), steps, sources)
        (new,) = balanced_function()({}, np.maximum(u, _LEAST_MEMBERSHIP), shares, np.asarray(slack))
        if labels is not None:
            new = np.where(labels >= 0, labels, new)
        changed = np.mean(new != classes)
        classes = new
        if changed < _SETTLED:
            break
    return classes


def partition_of_least_energy(
    graph: Graph, shares: np.ndarray, steps: int, slack: float, rng: np.random.Generator
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Parts with the given shares that few walks leave, found without labels; and what the other starts found.

    Without shares, the leading eigenvectors of the walk have the least energy: rounds start from groups in their space,
    several times.
    """
    found = [
        balanced_rounds(graph, groups, shares, steps, slack) for groups in _spectral_groups(graph, len(shares), rng)
    ]
    # Where the graph falls into pieces, shares may be out of reach, and one large part would have the least energy.
    order = sorted(
        range(len(found)), key=lambda i: (_misses(found[i], shares, slack), graph.energy(found[i], len(shares)))
    )
    return found[order[0]], [found[i] for i in order[1:]]


def _misses(classes: np.ndarray, shares: np.ndarray, slack: float) -> int:
    """How many classes have far less or far more than their share."""
    ratio = np.bincount(classes, minlength=len(shares)) / (shares * len(classes))
    return int(np.sum(np.abs(ratio - 1) > 2 * slack))


def _spectral_groups(graph: Graph, n_groups: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Groups of points in the space of the leading eigenvectors.

    In a large graph these belong to tiny groups that hardly any walk leaves, unless every unit also leads to all
    others, as often as it would with some more points. Small graphs are better left as they are. So both are tried.
    """
    groups = []
    for more in _MORE_POINTS:
        extra = more * float(graph.unit_sizes.mean())
        scale = 1 / np.sqrt(np.maximum(graph.unit_sizes + extra, np.finfo(np.float32).tiny))
        scale[graph.unit_sizes + extra == 0] = 0
        walk = _walk_of_units(graph, scale, extra)
        _, vectors = eigsh(walk, k=n_groups, which="LA", tol=1e-6, v0=rng.random(len(scale)))
        places = graph.S @ (scale[:, None] * vectors)
        directions = places / np.maximum(np.linalg.norm(places, axis=1, keepdims=True), 1e-12)
        seed = int(rng.integers(2**31))
        groups.append(KMeans(n_groups, n_init=3, random_state=seed).fit_predict(directions))
    return groups


def _walk_of_units(graph: Graph, scale: np.ndarray, extra: float) -> LinearOperator:
    def step(v: np.ndarray) -> np.ndarray:
        scaled = scale * v.ravel()
        return scale * (graph.S.T @ (graph.S @ scaled) + extra * scaled.mean())

    return LinearOperator((len(scale), len(scale)), matvec=step, dtype=np.float64)


class NamedParts:
    """Parts that get the names of classes from labels, by the assignment that explains the labels best."""

    def __init__(self, graph: Graph, parts: np.ndarray, n_classes: int) -> None:
        self.parts, self._n_classes = parts, n_classes
        # A few steps, so that a label speaks for its surroundings and not for one untypical point.
        self._membership = graph.walk(one_hot(parts, n_classes), _NAMING_STEPS)

    def names(self, labels: np.ndarray) -> np.ndarray:
        """The class of every part."""
        labeled = np.flatnonzero(labels >= 0)
        explained = np.zeros((self._n_classes, self._n_classes))
        certainty = np.log(np.maximum(self._membership[labeled], _LEAST_MEMBERSHIP))
        np.add.at(explained, labels[labeled], certainty)
        classes, parts = linear_sum_assignment(explained, maximize=True)
        names = np.empty(self._n_classes, dtype=np.int64)
        names[parts] = classes
        return names

    def classes(self, labels: np.ndarray) -> np.ndarray:
        """The class of every point."""
        return self.names(labels)[self.parts]

    def predicted(self, labels: np.ndarray, points: np.ndarray) -> np.ndarray:
        """The class that these points would get by name, after the same few steps."""
        return self.names(labels)[self._membership[points].argmax(axis=1)]
