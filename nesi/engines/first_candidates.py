"""Where the search for candidates starts: the best of all units, or of a sample of them.

The best of all units is a product of all points with all units. With millions of points it is quicker to take the best
of a sample and to walk from there along neighbouring units: the neighbours of a unit are the best explanations of its
own field, taken as a point.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from nesi.engines.backend import State
from nesi.engines.exact import as_arrays
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated_graph import best_units
from nesi.engines.weights import Weights
from nesi.labels import UNLABELED
from nesi.observations import Observations, Points

SAMPLE = 1000  # units, at most, that a walk may start from
ROUNDS = 4  # of the walk
NEIGHBOURS = 16  # of a unit that are tried
_START_VALUES = 10_000_000  # drives, or inputs, in memory at once


class FirstCandidates:
    """The best among the units with these weights, for any points."""

    def __init__(
        self, spec: NetworkSpec, arrays: State, A: np.ndarray, recurrent: np.ndarray, names: np.ndarray | None = None
    ) -> None:
        """`names`: what the units are called elsewhere, if these are some of the units only."""
        self._spec, self._arrays, self._A, self._recurrent, self._names = spec, arrays, A, recurrent, names

    def of_some(self, units: np.ndarray) -> FirstCandidates:
        W, R = self._arrays["W"][units], self._arrays["R"][:, units]
        some = Weights(W, R, self._spec.dtype, self._spec.sparse)
        return FirstCandidates(self._spec, some.arrays, self._A, self._recurrent, units.astype(np.int32))

    def find_best(self, data: Observations, labels: np.ndarray, table: np.ndarray) -> None:
        """Fill a table of one row per point; in a committee those of its first member come first."""
        size = table.shape[1] // self._spec.committee
        C = len(self._arrays["W"])
        step = max(1, _START_VALUES // (C if data.sparse else max(C, data.n_features)))
        for first in range(0, data.n_points, step):
            chunk = np.arange(first, min(first + step, data.n_points))
            rows = table[chunk].reshape(-1, size)
            table[chunk] = self.best(data.take(chunk, self._spec.dtype), labels[chunk], rows).reshape(len(chunk), -1)

    def best(self, points: Points, labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """As many units as `rows` has columns, best first; one row per point and member."""
        step = max(1, _START_VALUES // len(self._arrays["W"]))
        if isinstance(points, np.ndarray) and len(points) > step:
            starts = range(0, len(points), step)
            return np.concatenate(
                [self.best(points[i : i + step], labels[i : i + step], rows[i : i + step]) for i in starts]
            )
        label_inputs = self._spec.label_inputs(labels, len(self._arrays["R"]))
        inputs = [*as_arrays(points), *label_inputs, self._A, self._recurrent, rows]
        (found,) = best_units(self._spec.graph)(self._arrays, *inputs)
        return np.asarray(found if self._names is None else self._names[found])

    def neighbours_of_fields(self, count: int) -> np.ndarray:
        """For each unit the `count` best other explanations of its field."""
        W = self._arrays["W"]
        fields = np.maximum(W - 1, 1e-6)  # T1.3 adds the background again
        points = Observations(sp.csr_array(fields) if self._spec.sparse else fields, float(self._A))
        units = np.arange(len(W))
        nearest = np.empty((len(W), count + 1), dtype=np.int32)
        self.find_best(points, np.full(len(W), UNLABELED), nearest)
        others = nearest != units[:, None]
        others[others.all(axis=1), -1] = False  # a field that is not its own best explanation has one too many
        return nearest[others].reshape(len(W), -1)
