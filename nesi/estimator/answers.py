"""What a fitted `NeSiClassifier` says about new points, and the points and classes that it can draw itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import (
    _check_n_features,
    _check_sample_weight,
    _num_samples,
    check_is_fitted,
    validate_data,
)

from data_tools.rows_on_disk import RowsOnDisk, as_rows_on_disk
from data_tools.signed import InputPairs
from nesi.errors import NesiError
from nesi.estimator.inputs import check_count, generator, pairs_of_inputs, split_labels, warn_of_empty
from nesi.observations import has_content
from nesi.trained import TrainedNetwork


class Answers(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin):
    """Everything of `NeSiClassifier` that uses what was learned."""

    # Parameters, and what `fit` has left.
    class_prior: Any
    predict_inference: str
    random_state: Any
    signed: str
    W_: np.ndarray
    R_: np.ndarray
    classes_: np.ndarray
    class_prior_: np.ndarray
    n_features_in_: int
    signed_: bool
    pairs_: InputPairs | None
    _trained: TrainedNetwork

    def predict_proba(self, X: Any) -> np.ndarray:
        """p(k|y), eq. (PostKE)."""
        return self._network().posterior(self._to_answer(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class."""
        posterior = self.predict_proba(X)
        return self.classes_[posterior.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of labeled points whose class is predicted; points without a label are passed over."""
        known, labeled = split_labels(y, _num_samples(X))
        if not len(known):
            raise NesiError("y holds no label, so there is nothing to compare the predictions with.")
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)[labeled]
        return float(accuracy_score(known, self.predict(X)[labeled], sample_weight=weights))

    def transform(self, X: Any) -> np.ndarray:
        """The activities s of the first hidden layer, p(c|y); those of a committee's members side by side."""
        return self._network().activities(self._to_answer(X))

    def score_samples(self, X: Any) -> np.ndarray:
        """Log-likelihood of every (normalised) point, eq. (loglikelihood) without label."""
        return self._network().log_likelihood(self._to_answer(X))

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Draw points and classes from the generative model: k from p(k), c from R_k, y from Poisson(W_c).

        In a committee each point comes from a randomly chosen member: all of R_k together is that.
        """
        check_is_fitted(self, "W_")
        check_count("n_samples", n_samples)
        rng = generator(self.random_state if random_state is None else random_state)
        K, prior = len(self.R_), self.class_prior_
        k = rng.integers(K, size=n_samples) if self.class_prior is None else rng.choice(K, size=n_samples, p=prior)
        cumulative = np.cumsum(self.R_, axis=1, dtype=np.float64)
        thresholds = rng.random(n_samples) * cumulative[k, -1]
        c = (cumulative[k] < thresholds[:, None]).sum(axis=1)
        y = rng.poisson(self.W_[c]).astype(np.float64)
        return y if self.pairs_ is None else self.pairs_.undone(y), self.classes_[k]

    def _network(self) -> TrainedNetwork:
        """The trained network, rebuilt if the user has set W_, R_ or predict_inference since training."""
        check_is_fitted(self, "W_")
        computation = replace(self._trained.computation, inference=self.predict_inference)
        if self._trained.W is not self.W_ or self._trained.R is not self.R_ or self._trained.computation != computation:
            self._trained = replace(self._trained, W=self.W_, R=self.R_, computation=computation)
            self.W_, self.R_ = self._trained.W, self._trained.R
        return self._trained

    def _to_answer(self, X: Any) -> Any:
        """New points; those without content get an answer, and a warning."""
        X = self._validated(X)
        warn_of_empty(has_content(X), learning=False)
        return X

    def _validated(self, X: Any, signed: str | None = None) -> Any:
        """scikit-learn checks shape and type, `Observations` the values. A single feature has no direction.

        `signed`: how features are to become inputs; None for points that come after the first.
        """
        reset = signed is not None
        X = as_rows_on_disk(X)
        if isinstance(X, RowsOnDisk):
            if X.dtype.kind not in "uif":
                raise NesiError(f"The data has the type {X.dtype}, but must be real numbers.")
            _check_n_features(self, X, reset=reset)
        else:
            X = self._validated_in_memory(X, reset)
        if reset:
            self.pairs_ = pairs_of_inputs(X, signed)
            self.signed_ = self.pairs_ is not None
        return X if self.pairs_ is None else self.pairs_.of(X)

    def _validated_in_memory(self, X: Any, reset: bool) -> Any:
        fewest = 2 if reset else 1
        return validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_features=fewest,
            reset=reset,
        )

    @property
    def _n_features_out(self) -> int:
        return len(self.W_)
