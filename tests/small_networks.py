"""Data and networks that are small enough to train in every test."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np

from nesi import NeSiClassifier
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

INSTALLED_BACKENDS = [name for name in ("numba", "c", "jax") if name != "jax" or find_spec("jax") is not None]


def make_data(N=60, D=10, K=3, seed=0, share_labeled=0.5):
    """Points of K classes that differ in which inputs are large."""
    rng = np.random.default_rng(seed)
    classes = np.arange(N) % K
    profiles = 1 + 9 * rng.random((K, D)) ** 3
    X = rng.poisson(profiles[classes]) + 0.1
    labels = np.where(rng.random(N) < share_labeled, classes, -1)
    labels[:K] = np.arange(K)
    return X, labels


def make_trainer(X, labels, K=3, seed=0, **settings):
    A = X.shape[1] + 20.0
    defaults = {"network": "ff", "C": 6, "A": A, "iterations": 4}
    W_init, R_init = settings.pop("W_init", None), settings.pop("R_init", None)
    return Trainer(TrainingSettings(**(defaults | settings)), X, labels, K, np.random.default_rng(seed), W_init, R_init)


def make_model(**settings):
    defaults = {"n_subclasses": 6, "normalization": 40.0, "network": "ff+", "max_iter": 15, "random_state": 0}
    return NeSiClassifier(**(defaults | settings))
