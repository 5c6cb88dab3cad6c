"""Learning rates, and how many points a mini-batch may hold with them."""

from __future__ import annotations

import numpy as np

from nesi.errors import NesiError
from nesi.label_model import LabelModel
from nesi.networks import get_network
from nesi.observations import Observations
from nesi.training.settings import TrainingSettings

_INPUTS_OF_A_BATCH = 32_000_000


class Lesson:
    """What there is to learn from: points, labels, how much each point counts, and the rates that follow from them."""

    def __init__(
        self,
        settings: TrainingSettings,
        n_classes: int,
        data: Observations,
        labels: np.ndarray,
        labels_mean: LabelModel,
        weights: np.ndarray | None,
        seen: tuple[float, float] | None,
        parts: int = 1,
    ) -> None:
        """`weights`: how often each point counts, None for once; `seen`: N and L, if this is a part of the data.

        `parts`: mini-batches that are learned from at the same time.
        """
        self.data, self.labels, self.labels_mean, self.weights = data, labels, labels_mean, weights
        self._settings, self._K, self._n_parts = settings, n_classes, parts
        self._self_labeling = get_network(settings.network).self_labeling
        counts = np.ones(len(labels)) if weights is None else weights
        self._heaviest = counts.max(initial=0)
        # Factors of the paper times the mean activity of a unit: C/N, and K/L or K/N with self-labeling.
        N, L = seen or (counts.sum(), counts[labels >= 0].sum())
        taught = N if self._self_labeling else max(L, 1)
        self.epsilon_W = min(settings.epsilon_W * settings.C / N, 1)
        self.epsilon_R = min(settings.epsilon_R * self._K / taught, 1)
        self.batch_size = settings.batch_size or self._largest_sensible_batch()
        if settings.minibatch_rule == "summed" and settings.training == "online":
            self._check_stability(min(self.batch_size, len(labels)))

    def rates_W(self, batch: np.ndarray) -> np.ndarray:
        """The learning rate of every point of a mini-batch."""
        return self._rates(self.epsilon_W, batch)

    def rates_R(self, batch: np.ndarray) -> np.ndarray:
        return self._rates(self.epsilon_R, batch)

    def _rates(self, epsilon: float, batch: np.ndarray) -> np.ndarray:
        """A point of weight w is learned from as if it were there w times, one after the other or all at once."""
        if self.weights is None:
            return np.full(len(batch), epsilon)
        weights = self.weights[batch]
        return epsilon * weights if self._settings.minibatch_rule == "summed" else 1 - (1 - epsilon) ** weights

    def _largest_sensible_batch(self) -> int:
        """The activities of a batch are those of its start: no unit may forget more than 5 % meanwhile."""
        settings, n_points = self._settings, len(self.labels)
        fastest = max(settings.epsilon_W, settings.epsilon_R, 1e-6)
        if settings.minibatch_rule == "summed":
            fastest = max(fastest, 0.05 * n_points * max(self.epsilon_W, self.epsilon_R))
        # The exact engine keeps C activities per point; the truncated one wants every row of W to change at most once
        # or twice per batch, as going through W costs more than the few candidates of a point.
        most = 1000 if settings.inference == "exact" else max(1000, settings.C // 2)
        if self._n_parts > 1 and settings.inference == "truncated":  # rows of W travel: the fewer rounds, the better
            most = max(1000, _INPUTS_OF_A_BATCH // self.data.n_features)
        if not self.data.sparse:  # the points of a batch are floats, twice: as they are, and normalised
            most = min(most, max(1000, _INPUTS_OF_A_BATCH // self.data.n_features))
        if len(self.labels_mean.meanings) > 1000:  # every label of a batch is a row of a table as long as W
            most = 1000
        return int(np.clip(0.05 * n_points / fastest / self._n_parts, 1, most))

    def _check_stability(self, size: int) -> None:
        """The summed rule overshoots if the weights could lose more than all they have in one step."""
        labeled = self.labels[self.labels >= 0]
        per_class = size
        if not self._self_labeling:
            counts = np.bincount(labeled, minlength=self._K) if self.labels_mean.certain else np.array([len(labeled)])
            per_class = int(counts.max(initial=0))
        for name, rate, most in (
            ("epsilon_W", self.epsilon_W * self._heaviest, size),
            ("epsilon_R", self.epsilon_R * self._heaviest, min(size, per_class)),
        ):
            if rate * most > 1 + 1e-9:
                factor = getattr(self._settings, name)
                raise NesiError(
                    f"With the summed mini-batch rule {name} = {factor:g} and batches of {size} are unstable (learning "
                    f"rate x activity = {rate * most:.3g} > 1): use {name} <= {_rounded_down(factor / (rate * most))}, "
                    f"batch_size <= {max(int(1 / rate), 1)}, or minibatch_rule='sequential'."
                )


def _rounded_down(value: float) -> str:
    """Two digits that do not exceed the value."""
    scale = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.floor(value / scale) * scale:.2g}"
