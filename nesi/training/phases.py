"""The phases of a training: which layers learn, and from what.

Without greedy training there is one phase, in which both layers learn. Greedy training has a phase for each layer;
recurrent networks then learn with both together (`nesi.networks.training_phases`).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from nesi.engines.contract import LearningEngine
from nesi.engines.em import ExpectedCounts
from nesi.engines.exact import ExactEngine
from nesi.engines.second_layer import SecondLayer
from nesi.engines.specification import NetworkSpec
from nesi.observations import SparseRows
from nesi.training.learning_rates import Lesson
from nesi.training.settings import TrainingSettings


class PassResult(NamedTuple):
    """What one pass over the data tells."""

    log_likelihood: float  # mean per point, eq. (loglikelihood), of each point just before it was learned from
    self_labeled: int  # points that the network labeled itself


class Phase(Protocol):
    name: str  # the layers that learn: "both", or in greedy training "first" and then "second"
    about: dict[str, Any]  # what it has found out that belongs into a record
    changes_likelihood: bool  # if not, neither the stopping criterion nor convergence can end the phase

    @property
    def W(self) -> np.ndarray: ...

    @property
    def R(self) -> np.ndarray: ...

    @property
    def learning(self) -> list[np.ndarray]:
        """The weights that change."""

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        """One pass over the data; `batches` hold the indices of the points in every mini-batch."""


class EnginePhase:
    """The first layer learns, alone or together with the second."""

    changes_likelihood = True

    def __init__(self, name: str, engine: LearningEngine, lesson: Lesson, dtype: str) -> None:
        self.about: dict[str, Any] = {}
        self.name, self._engine, self._lesson, self._dtype = name, engine, lesson, dtype
        self._learn = "WR" if name == "both" else "W"

    @property
    def W(self) -> np.ndarray:
        return self._engine.W

    @property
    def R(self) -> np.ndarray:
        return self._engine.R

    @property
    def learning(self) -> list[np.ndarray]:
        return [self.W, self.R] if self.name == "both" else [self.W]

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        result = self.go_through(batches)
        self._engine.end_iteration()
        return result

    def go_through(self, batches: Iterable[np.ndarray]) -> PassResult:
        lesson, data = self._lesson, self._lesson.data
        log_likelihood, self_labeled = 0.0, 0
        for batch in batches:
            points = data.take(batch, self._dtype)
            rates = lesson.rates_W(batch), lesson.rates_R(batch)
            step = self._engine.step(points, lesson.labels[batch], *rates, self._learn, batch)
            each = step.log_likelihood - data.log_gamma[batch]
            log_likelihood += float(each.sum() if lesson.weights is None else each @ lesson.weights[batch])
            self_labeled += step.self_labeled
        total = data.n_points if lesson.weights is None else lesson.weights.sum()
        return PassResult(log_likelihood / total, self_labeled)


class BatchEMPhase(EnginePhase):
    """EM for the generative model: one E-step over all points, then one M-step."""

    def __init__(self, engine: ExactEngine, lesson: Lesson, settings: TrainingSettings) -> None:
        super().__init__("both", engine, lesson, settings.dtype)
        self._exact, self._A = engine, settings.A

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        data, counts, log_likelihood = self._lesson.data, ExpectedCounts(self._exact), 0.0
        weights = np.ones(data.n_points) if self._lesson.weights is None else self._lesson.weights
        for batch in batches:
            points = data.take(batch, self._dtype)
            each = counts.add(points, self._lesson.labels[batch], weights[batch])
            log_likelihood += float((each - data.log_gamma[batch]) @ weights[batch])
        self._engine.set_weights(*counts.m_step(self._A))
        return PassResult(log_likelihood / float(weights.sum()), 0)


class ClassLayerPhase:
    """The second layer learns from the activities of a first layer that no longer changes."""

    name = "second"
    changes_likelihood = False

    def __init__(
        self, engine: LearningEngine, lesson: Lesson, spec: NetworkSpec, threshold: float, log_likelihood: float
    ) -> None:
        """`log_likelihood`: of the first layer, with a uniform prior over units; it does not change any more."""
        self.about: dict[str, Any] = {}
        self._engine, self._lesson, self._committee = engine, lesson, spec.committee
        self._layer = SecondLayer(spec, engine.R, threshold)
        self._log_likelihood = log_likelihood

    @cached_property
    def _activities(self) -> sp.csr_array:
        return self._engine.activities(self._lesson.data)

    @property
    def W(self) -> np.ndarray:
        return self._engine.W

    @property
    def R(self) -> np.ndarray:
        return self._layer.R

    @property
    def learning(self) -> list[np.ndarray]:
        return [self.R]

    def learn(self, batches: Iterable[np.ndarray]) -> PassResult:
        self_labeled = 0
        for batch in batches:
            rows = self._activities[(batch[:, None] * self._committee + np.arange(self._committee)).ravel()]
            activities = SparseRows(rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
            self_labeled += self._layer.step(activities, self._lesson.labels[batch], self._lesson.rates_R(batch))
        return PassResult(self._log_likelihood, self_labeled)
