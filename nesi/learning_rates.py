"""Learning rates, and how many points a mini-batch may hold with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.networks import get_network
from nesi.settings import TrainingSettings


class Lesson:
    """What there is to learn from: so many points and labels, and the rates that follow from them."""

    def __init__(
        self,
        settings: TrainingSettings,
        K: int,
        labels: np.ndarray,
        labels_mean: Any,
        weights: np.ndarray | None,
        seen: tuple[float, float] | None,
    ) -> None:
        self._settings, self._K, self._labels, self._labels_mean = settings, K, labels, labels_mean
        self._n_points, self._self_labeling = len(labels), get_network(settings.network).self_labeling
        self._weights = np.ones(len(labels)) if weights is None else weights
        # Factors of the paper times the mean activity of a unit: C/N, and K/L or K/N with self-labeling.
        N, L = seen or (self._weights.sum(), self._weights[labels >= 0].sum())
        taught = N if self._self_labeling else max(L, 1)
        self.epsilon_W = min(settings.epsilon_W * settings.C / N, 1)
        self.epsilon_R = min(settings.epsilon_R * K / taught, 1)

    def batch_size(self) -> int:
        """As given, after a check, or as large as the rates allow."""
        size = self._settings.batch_size or self._largest_sensible_batch()
        if self._settings.minibatch_rule == "summed":
            self._check_stability(min(size, self._n_points))
        return size

    def _largest_sensible_batch(self) -> int:
        """The activities of a batch are those of its start: no unit may forget more than 5 % meanwhile."""
        settings = self._settings
        fastest = max(settings.epsilon_W, settings.epsilon_R, 1e-6)
        if settings.minibatch_rule == "summed":
            fastest = max(fastest, 0.05 * self._n_points * max(self.epsilon_W, self.epsilon_R))
        # The exact engine keeps C activities per point; the truncated one wants every row of W to change at most once
        # or twice per batch, as going through W costs more than the few candidates of a point.
        most = 1000 if settings.inference == "exact" else max(1000, settings.C // 2)
        if len(self._labels_mean.meanings) > 1000:  # every label of a batch is a row of a table as long as W
            most = 1000
        return int(np.clip(0.05 * self._n_points / fastest, 1, most))

    def _check_stability(self, size: int) -> None:
        """The summed rule overshoots if the weights could lose more than all they have in one step."""
        labeled = self._labels[self._labels >= 0]
        per_class = size
        if not self._self_labeling:
            counts = np.bincount(labeled, minlength=self._K) if self._labels_mean.certain else np.array([len(labeled)])
            per_class = int(counts.max(initial=0))
        heaviest = self._weights.max(initial=0)
        for name, rate, most in (
            ("epsilon_W", self.epsilon_W * heaviest, size),
            ("epsilon_R", self.epsilon_R * heaviest, min(size, per_class)),
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
