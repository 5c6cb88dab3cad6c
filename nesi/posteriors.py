"""Functions of probability arrays that several rooms use. Their symbolic versions, for graphs, are in `equations`."""

from __future__ import annotations

import numpy as np


def class_given_unit(R: np.ndarray, relative_prior: np.ndarray | None = None, unused: float = 0.0) -> np.ndarray:
    """p(k|c) (eq. PostK, unlabeled), classes in rows; `unused` for a unit without any weight.

    `relative_prior` is K p(k), for classes that are not equally likely.
    """
    joint = np.asarray(R, dtype=np.float64)
    if relative_prior is not None:
        joint = joint * relative_prior[:, None]
    total = joint.sum(axis=0)
    used = total > 0
    return np.where(used, joint / np.where(used, total, 1), unused)


def best_versus_second_best(p: np.ndarray) -> np.ndarray:
    """BvSB of every row, as the networks with self-labeling use it (Section 3.3)."""
    ordered = np.sort(p, axis=1)
    return ordered[:, -1] - (ordered[:, -2] if p.shape[1] > 1 else 0)


def percent_error(posterior: np.ndarray, classes: np.ndarray) -> float:
    """The share of points, in percent, whose most probable class is not theirs."""
    return 100.0 * float(np.mean(posterior.argmax(axis=1) != classes))
