"""A reproducible split into training and test points for data that comes without one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from data_tools.dataset import UNLABELED
from data_tools.errors import DataError


def stratified_split(
    y: npt.NDArray[np.int64], test_fraction: float, seed: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Sorted training and test indices; every class has the same test share and keeps at least one training point.

    Unlabeled points always stay in the training set: they cannot be used for testing.
    """
    check_fraction(test_fraction)
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    chosen = []
    for label in np.unique(y[y != UNLABELED]):
        members = rng.permutation(np.flatnonzero(y == label))
        n_test = min(round(test_fraction * len(members)), len(members) - 1)
        chosen.append(members[:n_test])
    test = np.sort(np.concatenate(chosen)) if chosen else np.empty(0, dtype=np.int64)
    train = np.setdiff1d(np.arange(len(y)), test, assume_unique=True)
    return train.astype(np.int64), test.astype(np.int64)


def check_fraction(test_fraction: float) -> None:
    if isinstance(test_fraction, bool) or not isinstance(test_fraction, (int, float)) or not 0 <= test_fraction < 1:
        raise DataError(
            f"test_fraction is {test_fraction!r}, expected a number of at least 0 and below 1, for example 0.2."
        )
