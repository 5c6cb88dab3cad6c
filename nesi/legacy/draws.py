"""Which points a run uses, in the manner of the authors' program.

It draws the labeled points from the whole training set and then, to fill up, unlabeled ones from the rest; otherwise
NeSi draws the points first and the labels among them. Or both are read from the index list of an earlier run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nesi.config.legacy_options import LegacyOptions
from nesi.errors import NesiError
from nesi.experiment.point_choice import PointList
from nesi.labels import UNLABELED, draw_labels
from nesi.legacy.h5_files import find_point_list, read_point_list
from nesi.seeds import random_stream

if TYPE_CHECKING:
    from nesi.experiment.tasks import RunData, RunTask


def choose_as_the_authors(task: RunTask, data: RunData, legacy: LegacyOptions) -> PointList:
    """Indices into the training and the test set of `data`, all sorted."""
    parameters = task.parameters
    n_points = parameters.train_size or len(data.y_train)
    if legacy.index_list is not None:
        points = _listed(legacy.index_list, task, data)
        if len(points.labeled) + len(points.unlabeled) != n_points:
            raise NesiError(
                f"{legacy.index_list} has {len(points.labeled) + len(points.unlabeled)} training points for run "
                f"{task.run}, but train_size is {n_points}; the learning rates need the right number."
            )
        return points

    def rng(purpose: str) -> np.random.Generator:
        return random_stream(parameters.seed, purpose, data.name, n_points, task.labels, task.run)

    if legacy.label_list is not None:
        known = _listed(legacy.label_list, task, data)
        labeled, test = known.labeled, known.test
    else:
        labeled = draw(data.y_train, task.labels, legacy.even_labels, rng("legacy labels"))
        test = draw(data.y_test, parameters.test_size, legacy.even_labels, rng("legacy test"))
    rest = np.setdiff1d(np.arange(len(data.y_train)), labeled)
    unlabeled = rng("legacy points").choice(rest, size=n_points - len(labeled), replace=False)
    return PointList(labeled, np.sort(unlabeled), test)


def draw(y: np.ndarray, count: int | None, evenly: bool, rng: np.random.Generator) -> np.ndarray:
    """`count` points with a known class, all of them if it is None; evenly means equally many per class."""
    known = np.flatnonzero(np.asarray(y) != UNLABELED)
    if count is None:
        return known
    if count > len(known):
        raise NesiError(f"{count} points were asked for, but only {len(known)} have a class; ask for fewer.")
    return draw_labels(y, count, rng) if evenly else np.sort(rng.choice(known, size=count, replace=False))


def _listed(place: str, task: RunTask, data: RunData) -> PointList:
    path = find_point_list(place, task.run)
    points = read_point_list(path, len(data.y_train), len(data.y_test))
    if len(points.labeled) != task.labels:
        raise NesiError(f"{path}: has {len(points.labeled)} labeled points, but {task.labels} labels were asked for.")
    if (np.asarray(data.y_train)[points.labeled] == UNLABELED).any():
        raise NesiError(f"{path}: a point that it calls labeled has no label in the data.")
    return points
