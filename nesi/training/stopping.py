"""When to stop: the likelihood criterion of Section 4.3.2, and convergence."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

Weights = dict[str, Any]


class LikelihoodDrop:
    """Stop as soon as the moving average of the log-likelihood falls below its maximum by more than the moving
    standard deviation, and go back to the weights in the centre of the window that showed it."""

    def __init__(self, width: int = 20) -> None:
        self.width = width
        self.best_average = -np.inf
        self._recent: deque[float] = deque(maxlen=width)
        self._weights: deque[tuple[int, Weights]] = deque(maxlen=width // 2 + 1)

    def update(self, iteration: int, log_likelihood: float, weights: Weights) -> bool:
        """Take note of one iteration; True if training should stop."""
        self._recent.append(log_likelihood)
        self._weights.append((iteration, {name: np.array(value) for name, value in weights.items()}))
        if len(self._recent) < self.width:
            return False
        average, deviation = np.mean(self._recent), np.std(self._recent)
        if average > self.best_average:
            self.best_average = float(average)
            return False
        return bool(average < self.best_average - deviation)

    def centre(self) -> tuple[int, Weights]:
        """The iteration in the centre of the last window, and its weights."""
        return self._weights[0]

    def state(self) -> dict[str, np.ndarray]:
        state = {"best_average": np.asarray(self.best_average), "recent": np.asarray(self._recent, dtype=np.float64)}
        state["iterations"] = np.asarray([iteration for iteration, _ in self._weights], dtype=np.int64)
        for name in ("W", "R"):
            if self._weights:
                state[name] = np.stack([weights[name] for _, weights in self._weights])
        return state

    def restore(self, state: dict[str, np.ndarray]) -> None:
        self.best_average = float(state["best_average"])
        self._recent.extend(float(value) for value in state["recent"])
        for i, iteration in enumerate(state["iterations"]):
            self._weights.append((int(iteration), {name: state[name][i] for name in ("W", "R")}))


def has_converged(
    history: dict[str, list[float]], tolerance: float, start: int = 0, or_falls: bool = True, window: int = 10
) -> bool:
    """Whether the log-likelihood has risen by less than `tolerance` per iteration between the last two windows.

    Only what came after iteration `start` counts. A network with self-labeling goes on while the share of points that
    it labels still grows. `or_falls` is False where the stopping criterion handles a falling likelihood.
    """
    likelihood, share = history["log_likelihood"][start:], history["self_labeled"][start:]
    if len(likelihood) < 2 * window:
        return False

    def rise(values: list[float]) -> float:
        return float(np.mean(values[-window:]) - np.mean(values[-2 * window : -window])) / window

    lowest = -np.inf if or_falls else 0.0
    return lowest <= rise(likelihood) < tolerance and rise(share) < 1e-3


def self_labeling_advice(share: list[float], unlabeled: float, try_this: str | None = None) -> str | None:
    """What to say of a network with self-labeling that ended before self-labeling did; None if there is nothing.

    `share`: how many of all points it labeled itself in each iteration; `unlabeled`: how many have no label;
    `try_this`: the remedy in the words of the caller. It sets in late with few labels, and with few units, as R = 1/C
    is large then and a label changes little of it.
    """
    if not share or unlabeled <= 0:
        return None
    if share[-1] < 0.1 * unlabeled:
        state = f"labels {100 * share[-1]:.1f} % of the points itself, so self-labeling has hardly set in"
    elif len(share) > 10 and share[-1] - share[-11] > 0.01:
        state = f"labels {100 * share[-1]:.1f} % of the points itself, and more with every iteration"
    else:
        return None
    remedy = "more iterations of the second layer may lower the error, or a higher learning rate there"
    return f"at the end of training the network {state}: {remedy}{f' (try {try_this})' if try_this else ''}."


def longer_or_faster(iterations: int, rate: float) -> tuple[int, float]:
    """What to try: twice as many iterations, or five times the learning rate, but no more than 1."""
    return 2 * iterations or 100, max(rate, min(5 * rate, 1.0))
