"""A finished run, opened again: parameters -> cell -> points -> weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from data_tools.dataset import Dataset, Matrix
from data_tools.rows_on_disk import chosen_rows
from nesi.errors import NesiError
from nesi.experiment.cells import all_tasks, load_dataset, run_data
from nesi.experiment.point_choice import PointList, choose_points
from nesi.experiment.tasks import RunData, RunTask, training_settings
from nesi.labels import mask_labels
from nesi.storage.arrays import load_arrays
from nesi.storage.experiment_directory import ExperimentDirectory, name_of
from nesi.storage.records import Record
from nesi.trained import TrainedNetwork
from nesi.training.settings import TrainingSettings


@dataclass(frozen=True)
class FinishedRun:
    """One run of an experiment whose weights were kept, with its data.

    Test labels are used for the test error alone, and only after training.
    """

    directory: ExperimentDirectory
    record: Record
    task: RunTask  # with the parameters of its cell and of its run
    data: RunData
    dataset: Dataset  # as data_tools loads it

    @property
    def name(self) -> str:
        return self.task.name

    @cached_property
    def settings(self) -> TrainingSettings:
        return training_settings(self.task.parameters, self.task.network)

    @cached_property
    def points(self) -> PointList:
        return choose_points(self.task, self.data)

    @cached_property
    def training_set(self) -> tuple[Matrix, np.ndarray]:
        """X and labels (-1: unlabeled)."""
        training = self.points.training
        return chosen_rows(self.data.X_train, training), mask_labels(self.data.y_train, self.points.labeled)[training]

    @cached_property
    def test_set(self) -> tuple[Matrix, np.ndarray]:
        """X and classes."""
        test = self.points.test
        return chosen_rows(self.data.X_test, test), self.data.y_test[test]

    @cached_property
    def network(self) -> TrainedNetwork:
        weights = load_arrays(self.directory.weights_file(self.name))
        W, R, settings = weights.get("W"), weights.get("R"), self.settings
        shape = (settings.units, self.data.X_train.shape[1])
        if W is None or R is None or W.shape != shape or R.shape != (self.data.n_classes, settings.units):
            raise NesiError(f"the weights of {self.name} in {self.directory} do not fit the data set {self.data.name}.")
        return TrainedNetwork.of(settings, W, R)


def finished_runs(path: Path, data_dir: Path | None) -> Iterator[FinishedRun]:
    """The runs in the directory whose weights were kept, in the order of their records."""
    directory = ExperimentDirectory(path)
    records = {name_of(record): record for record in directory.records()}
    kept = [name for name in records if directory.has_weights(name)]
    if not kept:
        raise NesiError(f"{path} holds no weights of a finished run; run it with keep_weights: first or all.")
    parameters = directory.parameters()
    dataset = load_dataset(parameters, data_dir)
    data = run_data(parameters, dataset)
    tasks = {task.name: task for task in all_tasks(parameters, data, None)}
    for name in kept:
        if name not in tasks:
            raise NesiError(f"{name} is not a run of {directory.parameters_file}; restore that file.")
        yield FinishedRun(directory, records[name], tasks[name], data, dataset)


def finished_run(path: Path, name: str | None, data_dir: Path | None) -> FinishedRun:
    """The run called `name`, or the first one whose weights were kept."""
    runs = list(finished_runs(path, data_dir))
    for run in runs:
        if name is None or run.name == name:
            return run
    known = ", ".join(run.name for run in runs[:20])
    raise NesiError(f"{path} holds no weights of {str(name)[:60]!r}; there are weights of {known}.")
