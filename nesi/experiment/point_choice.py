"""Which points a run uses: different ones in every run, and the same for all networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nesi.labels import draw_labels
from nesi.seeds import random_stream

if TYPE_CHECKING:
    from nesi.experiment.tasks import RunData, RunTask


class PointList(NamedTuple):
    """Sorted indices into the whole training set and the whole test set."""

    labeled: np.ndarray
    unlabeled: np.ndarray
    test: np.ndarray

    @property
    def training(self) -> np.ndarray:
        return np.union1d(self.labeled, self.unlabeled)


def choose_points(task: RunTask, data: RunData) -> PointList:
    """Training points, the labels among them, and test points; everything if the parameters do not say otherwise.

    Training points without content are left out. The streams don't depend on the network: all four networks see the
    same labels in the same run.
    """
    points = _chosen(task, data)
    if data.content.all():
        return points
    return points._replace(
        labeled=points.labeled[data.content[points.labeled]], unlabeled=points.unlabeled[data.content[points.unlabeled]]
    )


def _chosen(task: RunTask, data: RunData) -> PointList:
    parameters = task.parameters
    if parameters.legacy is not None and parameters.legacy.chooses_points:
        from nesi.legacy.draws import choose_as_the_authors

        return choose_as_the_authors(task, data, parameters.legacy)
    seed, y = parameters.seed, data.y_train
    points = np.arange(len(y))
    if parameters.train_size is not None and parameters.train_size < len(y):
        rng = random_stream(seed, "points", data.name, parameters.train_size, task.run)
        points = np.sort(rng.choice(len(y), size=parameters.train_size, replace=False))
    drawn = draw_labels(y[points], task.labels, random_stream(seed, "labels", data.name, task.labels, task.run))
    labeled = points[drawn]
    test = np.arange(len(data.y_test))
    if parameters.test_size is not None and parameters.test_size < len(test):
        test_rng = random_stream(seed, "test", data.name, parameters.test_size, task.run)
        test = draw_labels(data.y_test, parameters.test_size, test_rng)
    return PointList(labeled, np.setdiff1d(points, labeled), test)
