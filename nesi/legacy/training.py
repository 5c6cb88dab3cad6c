"""Training with the quirks of the authors' program, for results that are as close to its own as can be."""

from typing import Any

import numpy as np

from nesi.engines.exact import ExactEngine
from nesi.inference import infer
from nesi.legacy.options import LegacyOptions
from nesi.networks import NETWORKS
from nesi.observations import Observations
from nesi.settings import TrainingSettings
from nesi.training import Trainer


class LegacyTrainer(Trainer):
    """A trainer with the quirks that `legacy` switches on."""

    def __init__(
        self,
        settings: TrainingSettings,
        X: Any,
        labels: Any,
        n_classes: int,
        rng: np.random.Generator,
        W_init: Any,
        R_init: Any,
        legacy: LegacyOptions,
    ) -> None:
        super().__init__(settings, X, labels, n_classes, rng, W_init, R_init)
        self._legacy = legacy
        self._chunk_size = legacy.chunk_size(texts=self._data.sparse, network=settings.network)
        self.log_likelihood_at_start: float | None = None
        if legacy.likelihood:
            self.log_likelihood_at_start = float(self._likelihood_without_R(self._data).mean())

    # ---- shuffling between chunks ----------------------------------------------------------------------------------

    def _new_batches(self) -> list[np.ndarray]:
        """Chunk b has the places [b S, (b + 1) S) of an order of its own: a point may come twice, or never."""
        if self._chunk_size is None:
            return super()._new_batches()
        batches = []
        n_points = self._data.n_points
        for start in range(0, n_points, self._chunk_size):
            order = self._rng.permutation(n_points) if self.settings.shuffle else np.arange(n_points)
            chunk = order[start : start + self._chunk_size]
            batches += [chunk[first : first + self.batch_size] for first in range(0, len(chunk), self.batch_size)]
        return batches

    # ---- rows of zeros -----------------------------------------------------------------------------------------------

    def _learn(self, batches: list[np.ndarray], learn: str) -> tuple[float, int]:
        log_likelihood, self_labeled = 0.0, 0
        for batch in batches:
            missing = self.batch_size - len(batch) if self._legacy.padding else 0
            before = (np.array(self.W), np.array(self.R)) if missing else None
            of_batch, labeled_here = super()._learn([batch], learn)
            log_likelihood += of_batch
            self_labeled += labeled_here
            if before is not None:
                self._learn_from_zeros(missing, *before, learn)
        if self._legacy.likelihood:
            log_likelihood = float(self._likelihood_without_R(self._data).mean())
        return log_likelihood, self_labeled

    def _learn_from_zeros(self, rows: int, W: np.ndarray, R: np.ndarray, learn: str) -> None:
        """`rows` points y = 0 in the same mini-batch, whose weights were W and R before: they only forget.

        With y = 0 every unit has the drive 0, so that s is the prior over units.
        """
        prior = R.sum(axis=0, dtype="float64") if self._kind.network.recurrent else np.ones(R.shape[1])
        s = prior / prior.sum()
        new_W, new_R = np.array(self.W, dtype="float64"), np.array(self.R, dtype="float64")
        if "W" in learn:
            new_W = self._forget(new_W, W, self._epsilon_W * s[:, None], rows)
        if "R" in learn and (k := self._self_label(s, R)) is not None:
            # A row of zeros that the network gives a label is a point with the activities s.
            new_R[k] = self._forget(new_R[k] - s, R[k] - s, np.asarray(self._epsilon_R), rows) + s
        self._engine.set_weights(new_W, new_R)

    def _forget(self, new: np.ndarray, old: np.ndarray, rate: np.ndarray, times: int) -> np.ndarray:
        if self.settings.minibatch_rule == "summed":
            return new - times * rate * old
        return new * (1 - rate) ** times

    def _self_label(self, s: np.ndarray, R: np.ndarray) -> int | None:
        if not self._network.self_labeling:
            return None
        total = R.sum(axis=0, dtype="float64")
        t = R @ np.divide(s, total, out=np.zeros_like(s), where=total > 0)
        ordered = np.sort(t)
        certainty = ordered[-1] - (ordered[-2] if len(t) > 1 else 0)
        return int(t.argmax()) if certainty > self.settings.threshold else None

    # ---- the likelihood without R ----------------------------------------------------------------------------------

    def log_likelihood(self, X: Any, labels: Any = None) -> np.ndarray:
        if not self._legacy.likelihood:
            return super().log_likelihood(X, labels)
        return self._likelihood_without_R(Observations(X, self.settings.A))

    def _likelihood_without_R(self, data: Observations) -> np.ndarray:
        """log sum_c prod_d Poisson(y_d; W_cd) over the units that any class uses: weight 1 for each, no labels."""
        used = (self.R.sum(axis=0, keepdims=True) > 0).astype(self.settings.dtype)
        kind = self._kind._replace(network=NETWORKS["ff"], label_model=None)
        engine = ExactEngine(kind, self.W, used, self.settings.A, self.settings.threshold)
        return infer(engine, data, self.settings)[1]
