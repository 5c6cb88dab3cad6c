"""Truncated posteriors for new points: an answer from some hundred units instead of all, for those in a hurry.

The search of training has candidates to start from and knows who is whose neighbour. A new point starts from the best
of a sample of the units and then walks along neighbours; and the neighbours of a unit are the best explanations of its
own field, taken as a point.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nesi.engines.kinds import Kind
from nesi.engines.truncated import TruncatedEngine, TruncationSettings
from nesi.observations import Observations

_EVERY = 10  # so many units have one in the sample
_NEIGHBOURS, _LEADERS, _ROUNDS = 24, 5, 3  # the walk: from so many of the best units to so many neighbours of each
_POINTS_AT_ONCE = 20_000


class QuickInference:
    """For networks without committees. Finding the neighbours costs one exact pass over C points, once."""

    def __init__(self, kind: Kind, W: np.ndarray, R: np.ndarray, normalization: float, active: int) -> None:
        self._kind, self._W, self._R, self._A = kind, W, R, normalization
        self._walk = TruncationSettings(active, min(_NEIGHBOURS, len(W) - 1), _LEADERS, strangers=0)
        self._sample = np.arange(len(W))[:: _EVERY if len(W) >= _EVERY * active else 1]
        fields = np.maximum(W - 1, 1e-6)  # T1.3 adds the background again
        points = Observations(sp.csr_array(fields) if kind.sparse else fields, normalization)
        looking = TruncationSettings(self._walk.neighbours + 1, neighbours=0, strangers=0)
        nearest = self._engine(np.arange(len(W)), points, looking).search_state()["units"]
        others = nearest != np.arange(len(W))[:, None]
        others[others.all(axis=1), -1] = False  # a field that is not its own best explanation has one too many
        self._neighbours = nearest[others].reshape(len(W), -1)

    def posterior(self, data: Observations) -> tuple[np.ndarray, np.ndarray]:
        """p(k|y) (T1.6 without labels) and a lower bound of the log-likelihood of every point."""
        joint = self._R.astype(np.float64)
        if self._kind.label_model is not None:
            joint *= self._kind.label_model.relative_prior[:, None]
        total = joint.sum(axis=0)
        class_given_unit = (joint / np.where(total > 0, total, 1)).T
        t, bound = np.empty((data.n_points, len(self._R))), np.empty(data.n_points)
        start = self._sample[self._engine(self._sample, data, self._walk).search_state()["units"]]
        search = self._engine(np.arange(len(self._W)), data, self._walk)
        search.restore_search({"units": start, "neighbours": self._neighbours})
        for first in range(0, data.n_points, _POINTS_AT_ONCE):
            chunk = np.arange(first, min(first + _POINTS_AT_ONCE, data.n_points))
            for _ in range(_ROUNDS):
                found = search.candidates(chunk)
            t[chunk] = (found.s[:, :, None] * class_given_unit[found.units]).sum(axis=1)
            bound[chunk] = found.bound - data.log_gamma[chunk]
        return t, bound

    def _engine(self, units: np.ndarray, data: Observations, settings: TruncationSettings) -> TruncatedEngine:
        weights, unlabeled = (self._W[units], self._R[:, units]), np.full(data.n_points, -1)
        unused = np.random.default_rng(0)  # no strangers: the same points get the same answer
        return TruncatedEngine(self._kind, *weights, self._A, 0.0, data, unlabeled, unused, settings)
