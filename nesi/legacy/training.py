"""Training with the quirks of the authors' program, for results that are as close to its own as can be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from nesi.config.legacy_options import LegacyOptions
from nesi.engines.contract import LearningEngine
from nesi.engines.specification import NetworkSpec
from nesi.networks import NETWORKS
from nesi.observations import Observations
from nesi.posteriors import best_versus_second_best, class_given_unit
from nesi.trained import TrainedNetwork
from nesi.training.initialization import Start
from nesi.training.learning_rates import Lesson
from nesi.training.phases import EnginePhase, PassResult, Phase
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer


class NetworkWithoutR(TrainedNetwork):
    """A trained network whose likelihood is that of the authors' program: all units alike, without R and labels."""

    def log_likelihood(self, X: Any, labels: Any = None) -> np.ndarray:
        """log sum_c prod_d Poisson(y_d; W_cd) over the units that any class uses: weight 1 for each, no labels."""
        used = (self.R.sum(axis=0, keepdims=True) > 0).astype(self.R.dtype)
        alike = TrainedNetwork(
            NETWORKS["ff"], self.W, used, self.A, committee=self.committee, computation=self.computation
        )
        return alike.log_likelihood(X)


class LegacyTrainer(Trainer):
    """A trainer with the quirks that `legacy` switches on."""

    def __init__(
        self,
        settings: TrainingSettings,
        X: Any,
        labels: Any,
        n_classes: int,
        rng: np.random.Generator,
        W_init: Start,
        R_init: Start,
        legacy: LegacyOptions,
    ) -> None:
        self._legacy = legacy
        super().__init__(settings, X, labels, n_classes, rng, W_init, R_init)
        self._chunk_size = legacy.chunk_size(texts=self._lesson.data.sparse, network=settings.network)
        if legacy.likelihood:
            self.log_likelihood_at_start = float(self.trained().log_likelihood(self._lesson.data).mean())

    def _new_batches(self) -> Iterable[np.ndarray]:
        """Chunk b has the places [b S, (b + 1) S) of an order of its own: a point may come twice, or never."""
        if self._chunk_size is None:
            return super()._new_batches()
        batches = []
        n_points = self._lesson.data.n_points
        for start in range(0, n_points, self._chunk_size):
            order = self._rng.permutation(n_points) if self.settings.shuffle else np.arange(n_points)
            chunk = order[start : start + self._chunk_size]
            batches += [chunk[first : first + self.batch_size] for first in range(0, len(chunk), self.batch_size)]
        return batches

    def _new_phase(self) -> Phase:
        if self.phase == "second":
            return super()._new_phase()
        return LegacyPhase(self.phase, self._engine, self._lesson, self._spec, self.settings, self._legacy)

    def trained(self) -> TrainedNetwork:
        network = super().trained()
        if not self._legacy.likelihood:
            return network
        return NetworkWithoutR.of(self.settings, network.W, network.R, network.network)


class LegacyPhase(EnginePhase):
    """Adds rows of zeros to mini-batches that are not full, and computes the likelihood without R."""

    def __init__(
        self,
        name: str,
        engine: LearningEngine,
        lesson: Lesson,
        spec: NetworkSpec,
        settings: TrainingSettings,
        legacy: LegacyOptions,
    ) -> None:
        super().__init__(name, engine, lesson, settings.dtype)
        self._network, self._settings, self._legacy = spec.network, settings, legacy

    def go_through(self, batches: Iterable[np.ndarray]) -> PassResult:
        log_likelihood, self_labeled = 0.0, 0
        for batch in batches:
            missing = self._lesson.batch_size - len(batch) if self._legacy.padding else 0
            before = (np.array(self.W), np.array(self.R)) if missing else None
            result = super().go_through([batch])
            log_likelihood += result.log_likelihood
            self_labeled += result.self_labeled
            if before is not None:
                self._learn_from_zeros(missing, *before)
        if self._legacy.likelihood:
            log_likelihood = self._likelihood_without_R(self._lesson.data)
        return PassResult(log_likelihood, self_labeled)

    def _likelihood_without_R(self, data: Observations) -> float:
        network = NetworkWithoutR.of(self._settings, self.W, self.R, self._network)
        return float(network.log_likelihood(data).mean())

    def _learn_from_zeros(self, rows: int, W: np.ndarray, R: np.ndarray) -> None:
        """`rows` points y = 0 in the same mini-batch, whose weights were W and R before: they only forget.

        With y = 0 every unit has the drive 0, so that s is the prior over units.
        """
        prior = R.sum(axis=0, dtype="float64") if self._network.recurrent else np.ones(R.shape[1])
        s = prior / prior.sum()
        new_W, new_R = np.array(self.W, dtype="float64"), np.array(self.R, dtype="float64")
        if "W" in self._learn:
            new_W = self._forget(new_W, W, self._lesson.epsilon_W * s[:, None], rows)
        if "R" in self._learn and (k := self._self_label(s, R)) is not None:
            # A row of zeros that the network gives a label is a point with the activities s.
            new_R[k] = self._forget(new_R[k] - s, R[k] - s, np.asarray(self._lesson.epsilon_R), rows) + s
        self._engine.set_weights(new_W, new_R)

    def _forget(self, new: np.ndarray, old: np.ndarray, rate: np.ndarray, times: int) -> np.ndarray:
        if self._settings.minibatch_rule == "summed":
            return new - times * rate * old
        return new * (1 - rate) ** times

    def _self_label(self, s: np.ndarray, R: np.ndarray) -> int | None:
        if not self._network.self_labeling:
            return None
        t = class_given_unit(R) @ s
        return int(t.argmax()) if best_versus_second_best(t[None])[0] > self._settings.threshold else None
