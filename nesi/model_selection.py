"""Validation with few labels: folds of the labeled points, with everything else to train on."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from nesi.config.values import shown
from nesi.errors import NesiError
from nesi.estimator.inputs import generator, split_labels


class LabeledKFold:
    """Cross-validation of partly labeled data, for `cross_val_score`, `GridSearchCV` and the like.

    The labeled points are divided into `n_splits` folds with the same share of every class. Each fold in turn is
    validated on, and all other points are trained on: the other folds with their labels, and every unlabeled point. The
    points of a fold are left out altogether while it is its turn, as in the paper (Section 4.1). A class with a single
    label is always trained on and never validated on.

    Parameters
    ----------
    n_splits : folds; with very few labels, as many as the rarest class has labels.
    n_repeats : how often to divide the points again, at random: the mean over more repeats is less noisy.
    random_state : int, numpy Generator or RandomState, or None.
    """

    def __init__(self, n_splits: int = 5, n_repeats: int = 1, random_state: Any = None) -> None:
        for name, value, least in (("n_splits", n_splits, 2), ("n_repeats", n_repeats, 1)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
                raise NesiError(f"{name} is {shown(value)}, but must be an integer of at least {least}.")
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"LabeledKFold(n_splits={self.n_splits}, n_repeats={self.n_repeats}, random_state={self.random_state!r})"

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        return int(self.n_splits * self.n_repeats)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of the points to train on and of those to validate on."""
        if y is None:
            raise NesiError("y is missing, but folds are made of labeled points: give the labels.")
        known, labeled = split_labels(y, len(y))
        positions = np.flatnonzero(labeled)
        _, classes, counts = np.unique(known, return_inverse=True, return_counts=True)
        if not len(counts) or counts.max() < self.n_splits:
            most = max(counts, default=0)
            raise NesiError(
                f"n_splits is {self.n_splits}, but no class has more than {most} labels: use "
                + (f"n_splits={most}." if most > 1 else "more labels.")
            )
        divisible = counts[classes] > 1
        rng = generator(self.random_state)
        for _ in range(self.n_repeats):
            folds = StratifiedKFold(self.n_splits, shuffle=True, random_state=int(rng.integers(2**31)))
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "The least populated class")  # not every fold needs every class
                divided = list(folds.split(positions[divisible], classes[divisible]))
            for _, fold in divided:
                validation = positions[divisible][fold]
                yield np.setdiff1d(np.arange(len(labeled)), validation, assume_unique=True), validation
