"""The network whose fields are labeled: read from a directory that run_experiment.py has written."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nesi.checkpoints import load_arrays
from nesi.config import load_parameters
from nesi.errors import NesiError
from nesi.experiment import all_tasks, load_dataset, run_data, run_name
from nesi.field_labels import Answers, winning_fields
from nesi.field_training import with_answers
from nesi.labels import mask_labels
from nesi.points import choose_points
from nesi.records import RECORDS, Record, read_records
from nesi.run_task import RunData, RunTask, training_settings
from nesi.seeds import random_stream
from nesi.settings import TrainingSettings
from nesi.threads import limited_threads
from nesi.training import Trainer


@dataclass(frozen=True)
class Network:
    """One trained network with its data. Test labels are used for the test error alone, and only after training."""

    name: str
    directory: Path
    record: Record
    task: RunTask
    data: RunData
    dataset: Any
    W: np.ndarray
    R: np.ndarray

    @cached_property
    def settings(self) -> TrainingSettings:
        settings: TrainingSettings = training_settings(self.task.parameters, self.task.network)
        return settings

    @cached_property
    def training_points(self) -> tuple[Any, np.ndarray]:
        """X and labels (-1: unlabeled) of the run."""
        points = choose_points(self.task, self.data)
        return self.data.X_train[points.training], mask_labels(self.data.y_train, points.labeled)[points.training]

    @cached_property
    def test_points(self) -> tuple[Any, np.ndarray]:
        """Inputs and labels of the run's test points."""
        test = choose_points(self.task, self.data).test
        return self.data.X_test[test], self.data.y_test[test]

    @cached_property
    def activities(self) -> sp.csr_array:
        """s of the training points."""
        with limited_threads(self.task.parameters.threads):
            return self.trainer({}).activities()

    @cached_property
    def by_field(self) -> sp.csc_array:
        return sp.csc_array(self.activities)

    @cached_property
    def points_won(self) -> np.ndarray:
        return np.bincount(winning_fields(self.activities), minlength=len(self.W))

    def examples(self, field: int, count: int) -> list[int]:
        """Training points that the field has most to do with."""
        column = slice(self.by_field.indptr[field], self.by_field.indptr[field + 1])
        order = np.argsort(-self.by_field.data[column], kind="stable")[:count]
        return [int(point) for point in self.by_field.indices[column][order]]

    def trainer(self, answers: Answers) -> Trainer:
        """The network with these answers, ready to go on."""
        X, labels = self.training_points
        return with_answers(self.settings, X, self.W, self.R, answers, self.stream("field labels"), labels)

    def stream(self, purpose: str) -> np.random.Generator:
        task = self.task
        return random_stream(task.parameters.seed, purpose, self.data.name, task.network, task.labels, task.run)


def load_network(directory: Path, name: str | None, data_dir: Path | None) -> Network:
    """The run called `name`, or the first one whose weights were kept."""
    if not directory.is_dir() or not (directory / RECORDS).is_file():
        raise NesiError(f"{directory} holds no {RECORDS}; give the --out directory of a run_experiment.py call.")
    records = {run_name(record): record for record in read_records(directory)}
    kept = [run for run in records if (directory / "weights" / f"{run}.npz").is_file()]
    if not kept:
        raise NesiError(f"{directory} holds no weights of a finished run; run it with keep_weights: first or all.")
    if name is not None and name not in kept:
        raise NesiError(f"{directory} holds no weights of {name[:60]!r}; there are weights of {', '.join(kept[:20])}.")
    chosen = name or kept[0]
    parameters, record = load_parameters(directory / "params.yaml"), records[chosen]
    dataset = load_dataset(parameters, data_dir)
    data = run_data(parameters, dataset)
    weights = load_arrays(directory / "weights" / f"{chosen}.npz")
    W, R = weights.get("W"), weights.get("R")
    shapes = (len(data.y_train) and data.X_train.shape[1], data.n_classes)
    if W is None or R is None or (W.shape[1], len(R)) != shapes or W.shape[0] != R.shape[1]:
        raise NesiError(f"the weights of {chosen} in {directory} do not fit to the data set {data.name}.")
    task = next((task for task in all_tasks(parameters, data, None) if task.name == chosen), None)
    if task is None:
        raise NesiError(f"{chosen} is not a run of {directory}/params.yaml; restore that file.")
    if task.parameters.legacy is not None or task.parameters.committee > 1:
        raise NesiError(f"{chosen} is a committee or a legacy run: its fields cannot be labeled; choose another --run.")
    return Network(chosen, directory, record, task, data, dataset, W, R)
