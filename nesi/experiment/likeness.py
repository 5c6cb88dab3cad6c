"""Is a new point like those that were trained on? Its likelihood among theirs says so."""

from __future__ import annotations

import numpy as np

from data_tools.dataset import Matrix
from nesi.trained import TrainedNetwork

QUANTILES = "log_likelihood_quantiles"
_MOST_POINTS = 10_000
_STEPS = 1000


def log_likelihood_quantiles(network: TrainedNetwork, X: Matrix) -> np.ndarray:
    """The likelihoods of the training points in a thousand steps, without their labels, of 10000 of them at most."""
    rows = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], _MOST_POINTS)).astype(np.int64))
    return np.quantile(network.log_likelihood(X[rows]), np.linspace(0, 1, _STEPS + 1))


def are_unlike(quantiles: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """Which new points are not like anything that was trained on.

    New points are somewhat less likely than those that were learned from. So being the least likely is not enough: a
    point must be below 999 of 1000 training points by half of what these are below the median.
    """
    low, middle = np.interp([0.001, 0.5], np.linspace(0, 1, len(quantiles)), quantiles)
    return np.asarray(log_likelihood < low - 0.5 * (middle - low))


def share_less_likely(quantiles: np.ndarray, log_likelihood: np.ndarray) -> np.ndarray:
    """The share of training points that are less likely than each of the new points."""
    return np.interp(log_likelihood, quantiles, np.linspace(0, 1, len(quantiles)), left=0.0, right=1.0)
