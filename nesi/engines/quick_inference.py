"""Truncated posteriors for new points: a quick answer that looks at a few hundred units instead of all.

The search of training has candidates to start from and knows who is whose neighbour. A new point starts from the best
of a sample of the units and then walks along neighbours; and the neighbours of a unit are the best explanations of its
own field, taken as a point.
"""

from __future__ import annotations

import numpy as np

from nesi.config.network_parameters import TruncatedOptions
from nesi.engines.contract import Posterior
from nesi.engines.first_candidates import FirstCandidates
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine
from nesi.engines.weights import Weights
from nesi.labels import UNLABELED
from nesi.observations import Observations
from nesi.posteriors import class_given_unit

_EVERY = 10  # one unit in ten is in the sample
_NEIGHBOURS, _LEADERS, _ROUNDS = 24, 5, 3  # the walk: from the five best units to 24 neighbours of each, three times
_POINTS_AT_ONCE = 20_000


class QuickInference:
    """For networks without committees. Finding the neighbours costs one exact pass over C points, once."""

    def __init__(self, spec: NetworkSpec, W: np.ndarray, R: np.ndarray, normalization: float, active: int) -> None:
        self._spec, self._W, self._R, self._A = spec, W, R, normalization
        self._walk = TruncatedOptions(
            active=active, neighbours=min(_NEIGHBOURS, len(W) - 1), leaders=_LEADERS, strangers=0
        )
        self._sample = np.arange(len(W))[:: _EVERY if len(W) >= _EVERY * active else 1]
        A, recurrent = np.asarray(normalization, "float64"), spec.network_inputs(0.0)[0]
        everybody = FirstCandidates(spec, Weights(W, R, spec.dtype, spec.sparse).arrays, A, recurrent)
        self._neighbours = everybody.neighbours_of_fields(self._walk.neighbours)

    def posterior(self, data: Observations) -> Posterior:
        """p(k|y) (T1.6 without labels) and a lower bound of the log-likelihood of every point."""
        prior = None if self._spec.label_model is None else self._spec.label_model.relative_prior
        p_class = class_given_unit(self._R, prior).T
        t, bound = np.empty((data.n_points, len(self._R))), np.empty(data.n_points)
        start = self._sample[self._engine(self._sample, data, self._walk).state()["units"]]
        search = self._engine(np.arange(len(self._W)), data, self._walk)
        search.restore({"units": start, "neighbours": self._neighbours})
        for first in range(0, data.n_points, _POINTS_AT_ONCE):
            chunk = np.arange(first, min(first + _POINTS_AT_ONCE, data.n_points))
            for _ in range(_ROUNDS):
                found = search.candidates(chunk)
            t[chunk] = (found.s[:, :, None] * p_class[found.units]).sum(axis=1)
            bound[chunk] = found.bound - data.log_gamma[chunk]
        return Posterior(t, bound)

    def _engine(self, units: np.ndarray, data: Observations, settings: TruncatedOptions) -> TruncatedEngine:
        weights, unlabeled = (self._W[units], self._R[:, units]), np.full(data.n_points, UNLABELED)
        unused = np.random.default_rng(0)  # no strangers: the same points get the same answer
        return TruncatedEngine(self._spec, *weights, self._A, 0.0, data, unlabeled, unused, settings)
