"""Where training starts with the quirks of the authors' program; all other starts are in `nesi.training`."""

import numpy as np

from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.observations import Observations
from nesi.training.initialization import Start


def starts_off_by_one(parameters: ExperimentParameters, labels: np.ndarray, n_classes: int) -> bool:
    """Whether W starts from class means, as that program computes them."""
    if parameters.legacy is None or not parameters.legacy.class_start:
        return False
    complete = n_classes == parameters.C and len(np.unique(labels[labels >= 0])) == n_classes
    return parameters.W_init == "class_means" or (parameters.W_init in (None, "auto") and complete)


def class_means_off_by_one(data: Observations, labels: np.ndarray, C: int, rng: np.random.Generator) -> np.ndarray:
    """m_kd + U(0, 2 sigma_kd) over the labeled points of class k, as the authors' program divides units among classes.

    It takes the highest label for the number of classes, which is one too few: with C = K the last class gets no unit,
    and the last but one gets two.
    """
    n_classes = int(labels.max(initial=0))
    if n_classes == 0:
        raise NesiError("class means off by one need labels of at least two classes; switch legacy.class_start off.")
    W = np.empty((C, data.n_features))
    for k in range(n_classes):
        units = slice(k * C // n_classes, (k + 1) * C // n_classes)
        members = np.flatnonzero(labels == k)
        if not len(members):
            raise NesiError(f"W_init is 'class_means', but class {k} has no labeled point; label one of each class.")
        mean, deviation = data.moments(members)
        W[units] = mean + 2 * deviation * rng.random((units.stop - units.start, data.n_features))
    return W


def one_row(start: Start) -> Start:
    """Without labels all rows of R learn the same, so that one row is enough if they start alike (MM-USL)."""
    if isinstance(start, np.ndarray) and (start[:1] == start).all():
        return start[:1]
    if isinstance(start, np.ndarray) or start not in (None, "uniform"):
        raise NesiError("a class layer that learns without labels (MM-USL) must start with equal rows: use 'uniform'.")
    return start
