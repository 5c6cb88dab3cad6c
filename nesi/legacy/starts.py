"""Where training starts, for the initialisations of the authors' program that `nesi.initialization` does not have."""

from typing import Any

import numpy as np

from nesi.config import ExperimentParameters
from nesi.errors import NesiError
from nesi.legacy.h5_files import find_weights, read_weights
from nesi.observations import Observations
from nesi.parameter_sections import WeightFile


def start_W(
    parameters: ExperimentParameters, run: int, X: Any, labels: np.ndarray, n_classes: int, rng: np.random.Generator
) -> Any:
    """An array, or the name of a start that the trainer knows."""
    start, C, D = parameters.W_init, parameters.C, X.shape[1]
    if isinstance(start, WeightFile):
        return read_weights(find_weights(start.h5, run, 1, 1), (C, D))
    if start == "random":
        return 1 - rng.random((C, D))  # in (0, 1]: there is a logarithm to come
    if start == "even":
        return np.full((C, D), 1 / D)
    if start == "single_points":
        if len(labels) < C:
            raise NesiError(f"W_init is 'single_points', but there are {len(labels)} points for C = {C} units.")
        return Observations(X, parameters.A).dense_rows(rng.choice(len(labels), size=C, replace=False), "float64")
    if parameters.legacy is not None and parameters.legacy.class_start:
        complete = n_classes == C and len(np.unique(labels[labels >= 0])) == n_classes
        if start == "class_means" or (start in (None, "auto") and complete):
            return class_means_off_by_one(Observations(X, parameters.A), labels, C, rng)
    return start


def start_R(parameters: ExperimentParameters, run: int, n_classes: int, rng: np.random.Generator) -> Any:
    """An array, or the name of a start that the trainer knows."""
    start, shape = parameters.R_init, (n_classes, parameters.C)
    if isinstance(start, WeightFile):
        place = (2, 1) if parameters.greedy else (1, 2)  # MultiLayer and layer
        R = read_weights(find_weights(start.h5, run, *place), shape)
    elif start == "random":
        R = rng.random(shape)
    else:
        R = None
    if parameters.legacy is not None and parameters.legacy.unlabeled_top_layer:
        return _one_row(start, R)
    return start if R is None else R


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


def _one_row(start: Any, R: np.ndarray | None) -> Any:
    """Without labels all rows of R learn the same, so that one row is enough if they start alike."""
    if R is not None and (R[:1] == R).all():
        return R[:1]
    if R is not None or start not in (None, "uniform"):
        raise NesiError("a class layer that learns without labels (MM-USL) must start with equal rows: use 'uniform'.")
    return start
