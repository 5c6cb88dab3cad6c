"""The points that a reader of the report may want to look at, found while data and network are at hand.

The most typical points of the units that are shown, the points behind each cell of the confusion matrix, the least
certain answers and the points most unlike the rest. All are stored beside the weights: the report has no data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_tools.dataset import Dataset, Matrix
from data_tools.errors import DataError
from data_tools.own_folders import read_text
from nesi.experiment.likeness import are_unlike, share_less_likely
from nesi.experiment.point_choice import PointList
from nesi.fields.shown import choose_units
from nesi.observations import has_content
from nesi.posteriors import best_versus_second_best
from nesi.storage.arrays import Arrays
from nesi.trained import TrainedNetwork

_MOST_POINTS, _FEWEST_POINTS = 10_000, 2_000  # of the training set, and of the test set, are looked at
_MOST_ACTIVITIES = 100_000_000  # larger networks look at fewer points: this must not take as long as training
_TYPICAL, _LISTED = 4, 12  # points of each unit; of each list
_OF_A_CELL, _OF_ALL_CELLS = 6, 400  # points of a confusion matrix
_RESPONDS = 0.1  # the least activity that makes a point typical of a unit
_STRONGEST = 12  # words or inputs that stand for a point
_BEGINNING = 280  # characters of a text


class ShownPoints:
    """Collects rows of the training and of the test set, each of them once."""

    def __init__(self) -> None:
        self._place: dict[tuple[bool, int], int] = {}

    def places(self, rows: Any, of_test_set: bool) -> list[int]:
        return [self._place.setdefault((of_test_set, int(row)), len(self._place)) for row in rows]

    @property
    def rows(self) -> np.ndarray:
        return np.array([row for _, row in self._place], dtype=np.int64)

    @property
    def of_test_set(self) -> np.ndarray:
        return np.array([of_test_set for of_test_set, _ in self._place], dtype=bool)


def shown_points(
    network: TrainedNetwork,
    quantiles: np.ndarray,
    X_train: Matrix,
    labels: np.ndarray,
    X_test: Matrix,
    y_test: np.ndarray,
    test_posterior: np.ndarray | None,
) -> Arrays:
    """Rows count within `X_train` and `X_test`. Without `test_posterior` the network knows no classes yet.

    Test labels only tell which test points are errors; no list or order depends on them otherwise.
    """
    shown = ShownPoints()
    most = int(np.clip(_MOST_ACTIVITIES // network.R.shape[1], _FEWEST_POINTS, _MOST_POINTS))
    train, test = _spread_out(X_train, most), _spread_out(X_test, most)
    found = _look_at(network, X_train, train)
    arrays: Arrays = {"units": found.units, "unit_won": found.won, "looked_at": np.array([len(train), len(test)])}
    arrays["unit_points"] = np.full(found.typical.shape, -1, dtype=np.int64)
    for place, row in zip(np.argwhere(found.typical >= 0), found.typical[found.typical >= 0], strict=True):
        arrays["unit_points"][tuple(place)] = shown.places([row], False)[0]
    unlabeled = labels[train] < 0
    rows = np.concatenate([train[unlabeled], test])
    is_test = np.arange(len(rows)) >= unlabeled.sum()
    likelihood = found.log_likelihood[unlabeled]
    if len(test):
        likelihood = np.concatenate([likelihood, network.log_likelihood(X_test[test])])
    arrays["n_unlike"] = np.array([are_unlike(quantiles, likelihood).sum(), len(rows)])
    orders = {"unlike": likelihood}
    if test_posterior is not None:
        orders["least_certain"] = best_versus_second_best(np.concatenate([found.t[unlabeled], test_posterior[test]]))
    for name, order in orders.items():
        first = np.argsort(order, kind="stable")[:_LISTED]
        arrays[name] = np.array([shown.places([rows[n]], bool(is_test[n]))[0] for n in first], dtype=np.int64)
    if test_posterior is not None and len(y_test):
        arrays["confusion_points"] = _behind_confusions(shown, test_posterior, y_test)
    arrays |= {"point_rows": shown.rows, "point_of_test_set": shown.of_test_set}
    return arrays | _about_points(network, quantiles, shown, X_train, labels, X_test, test_posterior)


class _Found:
    """What the training points say about the units that are shown, and the network about the training points."""

    def __init__(self, R: np.ndarray) -> None:
        self.units = choose_units(R)
        self._all_won = np.zeros(R.shape[1], dtype=np.int64)
        self.typical = np.full((len(self.units), _TYPICAL), -1, dtype=np.int64)
        self._fit = np.full(self.typical.shape, -np.inf)
        self._t: list[np.ndarray] = []
        self._log_likelihood: list[np.ndarray] = []

    def add(self, rows: np.ndarray, s: np.ndarray, t: np.ndarray, log_likelihood: np.ndarray) -> None:
        self._t.append(t)
        self._log_likelihood.append(log_likelihood)
        self._all_won += np.bincount(s.argmax(axis=1), minlength=s.shape[1])
        activity = s[:, self.units].T
        with np.errstate(divide="ignore"):  # log p(y, c): among the points of a unit, those that it explains best
            fit = np.where(activity >= _RESPONDS, np.log(activity) + log_likelihood, -np.inf)
        fits = np.concatenate([self._fit, fit], axis=1)
        candidates = np.concatenate([self.typical, np.tile(rows, (len(self.units), 1))], axis=1)
        best = np.argsort(-fits, axis=1, kind="stable")[:, :_TYPICAL]
        self._fit = np.take_along_axis(fits, best, axis=1)
        self.typical = np.where(np.isfinite(self._fit), np.take_along_axis(candidates, best, axis=1), -1)

    @property
    def won(self) -> np.ndarray:
        return self._all_won[self.units]

    @property
    def t(self) -> np.ndarray:
        return np.concatenate(self._t)

    @property
    def log_likelihood(self) -> np.ndarray:
        return np.concatenate(self._log_likelihood)


def _look_at(network: TrainedNetwork, X: Matrix, rows: np.ndarray) -> _Found:
    found = _Found(network.R)
    for chunk, inference in network.inferences(X[rows]):
        found.add(rows[chunk], *inference)
    return found


def _spread_out(X: Matrix, most: int) -> np.ndarray:
    """Rows that have content, of some that are evenly spread over all of them."""
    rows = np.unique(np.linspace(0, X.shape[0] - 1, min(X.shape[0], most)).astype(np.int64))
    return rows[has_content(X[rows])] if len(rows) else rows


def _behind_confusions(shown: ShownPoints, posterior: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """(true class, answer, place): of every cell the surest answer, then more of cells that have many."""
    answer, certainty = posterior.argmax(axis=1), best_versus_second_best(posterior)
    order = np.lexsort((-certainty, answer, y_test))
    cells = y_test[order].astype(np.int64) * posterior.shape[1] + answer[order]
    starts = np.flatnonzero(np.diff(cells, prepend=-1))
    sizes = np.diff(starts, append=len(cells))
    rank, size = np.arange(len(cells)) - np.repeat(starts, sizes), np.repeat(sizes, sizes)
    right = y_test[order] == answer[order]  # errors are what one wants to see
    chosen = np.lexsort((-size, right, rank / size))
    chosen = chosen[rank[chosen] < _OF_A_CELL][:_OF_ALL_CELLS]
    rows = order[chosen]
    return np.stack([y_test[rows], answer[rows], shown.places(rows, True)], axis=1).astype(np.int64)


def _about_points(
    network: TrainedNetwork,
    quantiles: np.ndarray,
    shown: ShownPoints,
    X_train: Matrix,
    labels: np.ndarray,
    X_test: Matrix,
    test_posterior: np.ndarray | None,
) -> Arrays:
    """What the network says about each of them, and the label that it was given."""
    rows, of_test_set = shown.rows, shown.of_test_set
    posterior = np.zeros((len(rows), network.n_classes), dtype=np.float32)
    likelihood, given = np.zeros(len(rows)), np.full(len(rows), -1, dtype=np.int64)
    given[~of_test_set] = labels[rows[~of_test_set]]
    for X, these in ((X_train, ~of_test_set), (X_test, of_test_set)):
        if these.any():
            posterior[these] = network.posterior(X[rows[these]])
            likelihood[these] = network.log_likelihood(X[rows[these]])
    if test_posterior is not None:
        posterior[of_test_set] = test_posterior[rows[of_test_set]]
    return {
        "point_posterior": posterior if test_posterior is not None else posterior[:, :0],
        "point_less_likely": share_less_likely(quantiles, likelihood),
        "point_unlike": are_unlike(quantiles, likelihood),
        "point_labels": given,
    }


def within_data_set(arrays: Arrays, points: PointList) -> np.ndarray:
    """`point_rows`, counted within the whole data set."""
    rows, of_test_set = arrays["point_rows"].copy(), arrays["point_of_test_set"]
    rows[of_test_set], rows[~of_test_set] = points.test[rows[of_test_set]], points.training[rows[~of_test_set]]
    return rows


def content_of(dataset: Dataset, source: str, arrays: Arrays) -> tuple[Arrays, dict[str, Any]]:
    """Pictures, or the strongest inputs, and the names of the points, whose rows count within the whole data set.

    Texts whose files are in the folder `source` begin as they were written.
    """
    rows, of_test_set = arrays["point_rows"], arrays["point_of_test_set"]
    parts = [(dataset.X_train, ~of_test_set), (dataset.X_test, of_test_set)]
    names: list[str | None] = [None] * len(rows)
    for known, these in ((dataset.point_names, ~of_test_set), (dataset.test_point_names, of_test_set)):
        if known is not None:
            for place in np.flatnonzero(these):
                names[place] = str(known[int(rows[place])])
    about = {"names": names, "texts": [_beginning(dataset, source, name) for name in names]}
    if dataset.image_shape:
        pictures = np.zeros((len(rows), dataset.X_train.shape[1]), dtype=np.uint8)
        for X, these in parts:
            values = _dense(X[rows[these]])
            largest = values.max(axis=1, keepdims=True, initial=0)
            pictures[these] = np.round(255 * values / np.where(largest > 0, largest, 1))
        return {"point_pictures": pictures}, about
    inputs, strengths = np.full((len(rows), _STRONGEST), -1), np.zeros((len(rows), _STRONGEST), np.float32)
    for X, these in parts:
        for place, (columns, values) in zip(np.flatnonzero(these), _strongest(X[rows[these]]), strict=True):
            inputs[place, : len(columns)], strengths[place, : len(columns)] = columns, values
    return {"point_inputs": inputs.astype(np.int64), "point_strengths": strengths}, about


def _beginning(dataset: Dataset, source: str, name: str | None) -> str | None:
    """Of a text that was read from a file."""
    file = Path(source) / (name or "")
    if dataset.vocabulary is None or name is None or not file.is_file():
        return None
    try:
        text = " ".join(read_text(file).split())
    except DataError:
        return None
    return text if len(text) <= _BEGINNING else f"{text[:_BEGINNING]} ..."


def _strongest(X: Matrix) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The inputs of each row with the largest values."""
    for row in range(X.shape[0]):
        values = _dense(X[[row]]).ravel()
        best = np.argsort(-values, kind="stable")[:_STRONGEST]
        best = best[values[best] > 0]
        yield best, values[best]


def _dense(X: Any) -> np.ndarray:
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, dtype=np.float64)
