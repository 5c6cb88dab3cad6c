"""Points, labels, weights and settings that nobody should give to the estimator."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from hostile import Attacker, NotANumber, Rng, one_of
from small_networks import make_data, make_model

from nesi import NeSiClassifier

_VALUES = [0.0, 1.0, 1e-46, 1e-310, 5e-324, 1e300, 1e308, 1e38, 1e-38, -1.0, -1e-300, np.nan, np.inf, 255, 2**62, 0.5]
_SETTINGS: dict[str, list[Any]] = {
    "network": ["ff", "r", "ff+", "r+"],
    "inference": ["exact", "exact", "truncated"],
    "minibatch_rule": ["sequential", "sequential", "summed"],
    "epsilon_w": [0.0, 0.1, 1.0, 50.0, 1e6, 1e-320],
    "epsilon_r": [0.0, 0.1, 1.0, 50.0, 1e6, 1e-320],
    "normalization": [None, 40.0, 1e6, 1e12, 10.001],
    "n_subclasses": [1, 2, 6, 13],
    "batch_size": [None, 1, 7, 1000],
    "threshold": [0.0, 0.6, 1.0],
    "random_state": [0, 1],
}
_ODD = [None, -1, 0, 2.5, np.nan, np.inf, 10**400, "abc", b"x", [], [1], {}, {"a": 1}, 1j, True, np.array([1.0, 2.0])]


def _points(rng: Rng, n_points: int) -> Any:
    X: Any = make_data(N=n_points, seed=int(rng.integers(5)))[0]
    for _ in range(int(rng.integers(3))):
        X[rng.random(X.shape) < rng.random() * 0.3] = one_of(rng, _VALUES)
    if rng.random() < 0.2:
        X[int(rng.integers(n_points))] = one_of(rng, _VALUES)
    if rng.random() < 0.2:
        X = X * 10.0 ** float(rng.integers(-300, 280))
    if rng.random() < 0.1:
        with np.errstate(all="ignore"):
            X = X.astype(rng.choice(["float32", "float16", "longdouble", "int64", "uint8"]))
    if rng.random() < 0.2:
        X = sp.csr_array(X.astype("float64"))
    return X if rng.random() > 0.03 else X[:, : int(rng.integers(10))]


def _model(rng: Rng) -> NeSiClassifier:
    settings = {key: one_of(rng, values) for key, values in _SETTINGS.items()}
    if rng.random() < 0.15:
        keys = [
            key for key in NeSiClassifier().get_params() if key not in ("backend", "verbose", "committee", "n_init")
        ]
        settings[one_of(rng, keys)] = one_of(rng, _ODD)
    settings["max_iter"] = 2
    return make_model(**settings)


def estimator() -> Iterator[Attacker]:
    trained = make_model(max_iter=3).fit(*make_data())

    def attack(rng: Rng) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            if rng.random() < 0.5:
                check_answers(trained, _points(rng, 12))
                return
            X = _points(rng, 20)
            labels = rng.integers(-1, 3, 20)
            weights = None
            if rng.random() < 0.2:
                weights = np.array([0, 1, 1e-300, 1e12, 1e308, 0.5, -1])[
                    rng.integers(7, size=20) * (rng.random(20) < 0.3)
                ]
            model = _model(rng)
            model.fit(X, labels, weights)
            if not np.isfinite(model.log_likelihood_).all():
                raise NotANumber("log_likelihood_")
            check_answers(model, X)

    yield attack


def check_answers(model: NeSiClassifier, X: Any) -> None:
    posterior = model.predict_proba(X)
    if not np.isfinite(posterior).all() or np.abs(posterior.sum(axis=1) - 1).max(initial=0) > 1e-3:
        raise NotANumber("predict_proba")
    if not np.isfinite(model.score_samples(X)).all():
        raise NotANumber("score_samples")
