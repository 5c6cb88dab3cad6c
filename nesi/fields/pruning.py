"""Overfitting control (Section 4.3.4): units that are hardly ever active, and what happens without them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nesi.errors import NesiError
from nesi.fields.labels import field_usage

if TYPE_CHECKING:
    from nesi.trained import TrainedNetwork

# p(c|R) N, the number of training points a unit stands for: below 0.5 it is forgotten, below 1.5 it knows one point.
FORGOTTEN, SINGLE_POINT = 0.5, 1.5


def unit_usage(R: np.ndarray, n_train: int) -> np.ndarray:
    """p(c|R) N: the number of training points that each unit stands for."""
    return field_usage(R) * n_train


def prune(network: TrainedNetwork, n_train: int, below: float = SINGLE_POINT) -> TrainedNetwork:
    """Without the units for which p(c|R) N < `below`; what is left of p(c|k) = R_kc sums to one again."""
    if network.committee > 1:
        raise NesiError(
            f"The network is a committee of {network.committee}, whose members must stay equally large: no pruning."
        )
    W, R = network.W, network.R
    kept = unit_usage(R, n_train) >= below
    left = R[:, kept].sum(axis=1)
    if not (left > 0).all():
        raise NesiError(
            f"Pruning below {below:g} would leave class {int(np.argmin(left))} without a unit: use a smaller limit."
        )
    return network.with_weights(W[kept], (R[:, kept] / left[:, None]).astype(R.dtype))
