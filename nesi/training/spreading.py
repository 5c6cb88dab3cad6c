"""Training that spreads its labels: over the units of a trained first layer, or over neighbouring points."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from nesi.engines.contract import LearningEngine
from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.errors import NesiError
from nesi.networks import get_network
from nesi.observations import Observations
from nesi.spreading.graph import Graph, graph_of_neighbours, graph_of_units, one_hot
from nesi.spreading.spread import Spread, Spreading
from nesi.training.initialization import initial_weights
from nesi.training.learning_rates import Lesson
from nesi.training.phases import BatchEMPhase, PassResult
from nesi.training.settings import TrainingSettings

STEPS = 10  # of the walk between two divisions into classes
_RICH = 100  # units per class from which on a first layer is as fine a graph as the points themselves
_LOOK_AHEAD = 5  # passes of EM after which the likelihood says which start is the better one


def spread_over(settings: TrainingSettings, n_classes: int) -> str:
    """What labels are spread over, 'auto' resolved."""
    if settings.spread != "auto":
        return str(settings.spread)
    return "units" if settings.greedy and _RICH * n_classes <= settings.C else "points"


def labels_to_spread(lesson: Lesson) -> np.ndarray:
    if not lesson.labels_mean.certain:
        raise NesiError("spread is for labels that name a class for certain; leave spread, or label_noise, out.")
    return lesson.labels


class SpreadPhase:
    """All labels travel over the graph at once; what arrives teaches the second layer in one M-step."""

    name = "spread"
    changes_likelihood = False

    def __init__(
        self,
        engine: LearningEngine,
        lesson: Lesson,
        settings: TrainingSettings,
        rng: np.random.Generator,
        log_likelihood: float,
    ) -> None:
        self._engine, self._lesson, self._settings, self._rng = engine, lesson, settings, rng
        self._log_likelihood = log_likelihood
        self._R = engine.R
        self.about: dict[str, Any] = {}

    @property
    def W(self) -> np.ndarray:
        return self._engine.W

    @property
    def R(self) -> np.ndarray:
        return self._R

    @property
    def learning(self) -> list[np.ndarray]:
        return [self._R]

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        settings, data, labels = self._settings, self._lesson.data, labels_to_spread(self._lesson)
        n_classes = len(self._engine.R)
        over = spread_over(settings, n_classes)
        activities = self._engine.activities(data)
        graph = graph_of_units(activities, settings.committee) if over == "units" else _graph_of(data)
        shares = self._lesson.labels_mean.prior
        spread = Spreading(graph, shares, STEPS, self._rng).spread(labels)
        self.about = {"spread": spread.account(over)}
        self._R = taught_R(activities, spread, n_classes, settings.committee).astype(self._engine.R.dtype)
        return PassResult(self._log_likelihood, int(np.sum(labels < 0)))


def taught_R(activities: sp.csr_array, spread: Spread, n_classes: int, committee: int) -> np.ndarray:
    """R_kc = sum_n t_nk s_nc / sum_n t_nk, eq. (MstepR) with t as it arrived.

    Where shares were left free, rows are divided by the mean size of a class instead of that of their own, so that
    classes which were found to be larger are also more probable.
    """
    t = one_hot(np.repeat(spread.classes, committee), n_classes)
    counts = np.asarray((activities.T @ t).T, dtype=np.float64)
    sizes = np.maximum(t.sum(axis=0, dtype=np.float64), 1)
    R = counts / (np.full_like(sizes, sizes.mean()) if spread.way == "walk" else sizes)[:, None]
    R[:, counts.sum(axis=0) == 0] = np.finfo(np.float32).tiny  # a unit that no point has says nothing about classes
    return R


def _graph_of(data: Observations) -> Graph:
    return graph_of_neighbours(data.inputs)


def spread_start(
    settings: TrainingSettings, lesson: Lesson, spec: NetworkSpec, n_classes: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, dict[str, Any]]:
    """W and R from all points, with the classes that arrived over the graph of neighbours; and what to tell of it."""
    if n_classes > settings.C:
        raise NesiError(
            f"spread is 'points', but there are fewer units (C = {settings.C}) than classes ({n_classes}): use at "
            f"least {n_classes} units."
        )
    labels = labels_to_spread(lesson)

    def weights_from(classes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if n_classes < settings.C:
            choice = np.random.default_rng(seed)
            return initial_weights("points", "points", lesson.data, classes, n_classes, settings, choice)
        means = [lesson.data.moments(np.flatnonzero(classes == k))[0] for k in range(n_classes)]
        return np.array(means, dtype=settings.dtype), np.eye(n_classes, dtype=settings.dtype)

    def likelihood(classes: np.ndarray) -> float:
        recurrent = spec._replace(network=get_network("r"))
        engine = ExactEngine(recurrent, *weights_from(classes), settings.A, settings.threshold)
        learning = BatchEMPhase(engine, lesson, settings)
        points = np.arange(lesson.data.n_points)
        batches = np.array_split(points, max(1, len(points) // 1000))
        for _ in range(_LOOK_AHEAD):
            passed = learning.learn(batches)
        return passed.log_likelihood

    seed = np.random.SeedSequence(int(rng.integers(2**63)))
    graph, shares = _graph_of(lesson.data), lesson.labels_mean.prior
    spread = Spreading(graph, shares, STEPS, rng).spread(labels, likelihood)
    return *weights_from(spread.classes), {"spread": spread.account("points")}
