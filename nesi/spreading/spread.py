"""Spread the labels that are given to all points, in the way that the labels themselves speak for.

There are three ways. Which is right differs from data set to data set, and is decided without further labels: by the
likelihood of the network that starts from what arrived, or by labels that were hidden and have to be found again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.spreading.graph import Graph, one_hot
from nesi.spreading.partition import NamedParts, balanced_rounds, partition_of_least_energy, spread_from_labels

# "parts": parts of the graph, found without labels, get their names from labels. "balanced": labels walk, then rounds
# in which every class gets its share. "walk": labels walk, and the shares are what they are.
WAYS = ("parts", "balanced", "walk")
_FOLDS = 4
_SLACK = 0.1  # shares of the classes are known to within this factor
_CLEAR = 0.85  # of hidden labels are found by the names of parts: nothing else needs to be tried
_USABLE = 0.6  # the same, where there is no way to try anything else
_STEPS = 3  # of a short walk
_AGREED = 0.9  # of the points, on which several starts must agree if parts are taken although labels contradict them


@dataclass(frozen=True)
class Spread:
    """What arrived, and how sure that is."""

    classes: np.ndarray  # of every point; given labels are kept
    way: str
    energy: float  # the share of walks that leave their class in one step
    agreement: float  # of the parts that several starts without labels have found
    fit: float  # the share of short walks from labeled points that end in the class of their label
    found_again: dict[str, float] = field(default_factory=dict)  # way -> share of hidden labels that it found
    likelihoods: dict[str, float] = field(default_factory=dict)  # way -> mean log-likelihood of the network

    @property
    def doubt(self) -> float:
        """How lost the run is, from 0 to 1: do starts disagree on the parts, do labels contradict their classes?"""
        return 1 - self.agreement * self.fit

    def account(self, over: str) -> dict[str, Any]:
        """For records; `over` what the labels were spread."""
        known = {name: value for name, value in asdict(self).items() if name != "classes"}
        return {"over": over} | known | {"doubt": self.doubt}


def spreading_advice(about: dict[str, Any] | None) -> str | None:
    """What to say of labels that hardly fit the graph; `about` is the account of a spread."""
    found = None if about is None else about["found_again"].get(about["way"], about["found_again"].get("parts"))
    if found is None or found >= _USABLE:
        return None
    return (
        f"of the labels that were hidden for a trial, spreading found only {found:.0%} again: the classes are not the "
        "groups that the points form, or their sizes are far from class_prior. Expect many errors; label more points."
    )


class Spreading:
    """The three ways over one graph; what needs no labels is computed once, for any number of labels."""

    def __init__(self, graph: Graph, shares: np.ndarray, steps: int, rng: np.random.Generator) -> None:
        """`shares` of the points that each class has; `steps` of the walk between two divisions into classes."""
        self._graph, self._shares, self._steps = graph, np.asarray(shares, dtype=np.float64), steps
        self._rng = rng
        parts, self._agreement = partition_of_least_energy(graph, self._shares, steps, _SLACK, rng)
        self._parts = NamedParts(graph, parts, self._n_classes)

    @property
    def _n_classes(self) -> int:
        return len(self._shares)

    def spread(self, labels: np.ndarray, likelihood: Callable[[np.ndarray], float] | None = None) -> Spread:
        """Labels are -1 where unknown; `likelihood` of the network that learns from classes, if it can tell."""
        counts = np.bincount(labels[labels >= 0], minlength=self._n_classes)
        if not counts.all():
            raise NesiError(
                f"Labels can't be spread: class {int(np.argmin(counts))} has no labeled point; label at least one "
                "point of every class, or train without spreading."
            )
        found_again: dict[str, float] = {}
        likelihoods: dict[str, float] = {}
        if likelihood is None:
            way, found_again = self._chosen_by_hidden_labels(labels)
        else:
            likelihoods = {each: likelihood(self.classes(each, labels)) for each in WAYS}
            way = max(WAYS, key=lambda each: likelihoods[each])
        classes = self.classes(way, labels)
        energy = self._graph.energy(classes, self._n_classes)
        return Spread(classes, way, energy, self._agreement, self._fit(classes, labels), found_again, likelihoods)

    def _fit(self, classes: np.ndarray, labels: np.ndarray) -> float:
        """A labeled point says nothing of itself: the walks begin with what its surroundings say."""
        labeled = np.flatnonzero(labels >= 0)
        others = one_hot(classes, self._n_classes)
        others[labeled] = 0
        ends = self._graph.walk(others, _STEPS)[labeled]
        share = ends[np.arange(len(labeled)), labels[labeled]] / np.maximum(ends.sum(axis=1), np.finfo(np.float32).tiny)
        return float(share.mean(dtype=np.float64))

    def classes(self, way: str, labels: np.ndarray) -> np.ndarray:
        """Of every point; the labels given are kept."""
        if way == "parts":
            found = self._parts.classes(labels)
        else:
            found = spread_from_labels(self._graph, labels, self._n_classes).argmax(axis=1)
            if way == "balanced":
                found = balanced_rounds(self._graph, found, self._shares, self._steps, _SLACK, labels)
        return np.where(labels >= 0, labels, found)

    def _chosen_by_hidden_labels(self, labels: np.ndarray) -> tuple[str, dict[str, float]]:
        """The way that finds most labels that were hidden from it, and the share that each has found."""
        found = {"parts": self._found_by_names(labels)}
        if found["parts"] >= _CLEAR:
            return "parts", found
        fewest = int(np.bincount(labels[labels >= 0]).min())
        if (
            fewest < 2
        ):  # with its only label hidden, a class can't spread; one untypical label may contradict good parts
            return "parts" if found["parts"] >= _USABLE or self._agreement >= _AGREED else "walk", found
        for way in WAYS[1:]:
            right = total = 0
            for hidden in _folds(labels, min(_FOLDS, fewest), self._rng):
                guess = self.classes(way, _without(labels, hidden))[hidden]
                right, total = right + int(np.sum(guess == labels[hidden])), total + len(hidden)
            found[way] = right / total
        best = max(found, key=lambda way: found[way])
        clearly = found[best] > found["parts"] + _two_errors(found["parts"], labels)
        return best if clearly else "parts", found

    def _found_by_names(self, labels: np.ndarray) -> float:
        """Leave one out. If it is the only one of its class, the part that is left over gets that name."""
        labeled = np.flatnonzero(labels >= 0)
        hidden = [self._parts.predicted(_without(labels, point), np.array([point]))[0] for point in labeled]
        return float(np.mean(np.array(hidden) == labels[labeled]))


def _two_errors(share: float, labels: np.ndarray) -> float:
    """Twice the standard error of a share of the labels."""
    return float(2 * np.sqrt(share * (1 - share) / np.sum(labels >= 0)))


def _without(labels: np.ndarray, hidden: Any) -> np.ndarray:
    rest = labels.copy()
    rest[hidden] = -1
    return rest


def _folds(labels: np.ndarray, n_folds: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Labeled points, a part of every class at a time."""
    labeled = np.flatnonzero(labels >= 0)
    order = rng.permutation(labeled)
    order = order[np.argsort(labels[order], kind="stable")]
    for fold in range(n_folds):
        yield order[fold::n_folds]
