"""Classes of points: spread from labels, balanced, or found without labels and then named."""

from __future__ import annotations

import numpy as np
from scipy.optimize import linear_sum_assignment

from nesi.spreading.coarse import CoarseGraph
from nesi.spreading.graph import Graph, one_hot
from nesi.spreading.kernels import balanced_function
from nesi.spreading.search import Search

_POISSON_STEPS = 300
_ROUNDS = 20
_NAMING_STEPS = 3
_LEAST_MEMBERSHIP = 1e-6
_SETTLED = 1e-4  # share of the points that still change their class
_UNTYPICAL = 0.03  # of the labels may be anywhere


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
    each = np.ones(graph.n_points)
    for _ in range(_ROUNDS):
        u = graph.walk(one_hot(classes, len(shares)), steps, sources)
        (new,) = balanced_function()({}, np.maximum(u, _LEAST_MEMBERSHIP), each, shares, np.asarray(slack))
        if labels is not None:
            new = np.where(labels >= 0, labels, new)
        changed = np.mean(new != classes)
        classes = new
        if changed < _SETTLED:
            break
    return classes


def partition_of_least_energy(
    graph: Graph, shares: np.ndarray, steps: int, slack: float, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """Parts with the given shares that few walks leave, found without labels, and how far several starts agree on them.

    They are looked for on a small copy of the graph, and settle on the graph itself.
    """
    coarse = CoarseGraph(graph, len(shares), rng)
    found = Search(coarse, shares, slack, rng).partitions()
    best, others = found[0].parts, found[1 : max(2, len(found) // 2)]  # the worse half only says how hard it is
    agreements = [agreement(best, other.parts, coarse.sizes) for other in others]
    return balanced_rounds(graph, best[coarse.node], shares, steps, slack), float(np.mean(agreements))


def agreement(parts: np.ndarray, others: np.ndarray, sizes: np.ndarray) -> float:
    """The share of points that two partitions treat alike, whatever they call their parts."""
    n_parts = int(max(parts.max(), others.max())) + 1
    together = np.zeros((n_parts, n_parts))
    np.add.at(together, (parts, others), sizes)
    return float(together[linear_sum_assignment(together, maximize=True)].sum() / sizes.sum())


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
        certainty = np.log((1 - _UNTYPICAL) * self._membership[labeled] + _UNTYPICAL / self._n_classes)
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
