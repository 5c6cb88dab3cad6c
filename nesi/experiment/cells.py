"""The cells of the table: which runs an experiment has, on which data, with which parameters each."""

from __future__ import annotations

import hashlib
import json
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from data_tools.dataset import Dataset
from data_tools.rows_on_disk import parts_of
from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.experiment.first_layers import OF_THE_RUN, first_layer_settings, learns_side_by_side
from nesi.experiment.tasks import RunData, RunTask
from nesi.labels import UNLABELED
from nesi.observations import about_empty_points, has_content, larger_than_the_inputs
from nesi.storage.experiment_directory import DatasetDescription, ExperimentDirectory, run_name
from nesi.threads import threads_for


class Cell(NamedTuple):
    """One network with one number of labels, and the parameters of its runs."""

    parameters: ExperimentParameters
    network: str
    labels: int


def load_dataset(parameters: ExperimentParameters, data_dir: Path | None) -> Dataset:
    """The data set that the parameters name, from `data_dir`, $NESI_DATA or the user's cache."""
    import data_tools

    options: dict[str, Any] = dict(parameters.data)
    if parameters.legacy is not None and parameters.legacy.idf and data_tools.takes_option(parameters.dataset, "idf"):
        options.setdefault("idf", "legacy")
    if "C" in parameters.automatic and data_tools.takes_option(parameters.dataset, "signed"):
        options.setdefault("signed", "measured")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        dataset = data_tools.load(parameters.dataset, data_dir=data_dir, **options)
    for warning in caught:
        print(f"warning: {str(warning.message).rstrip('.')}.", file=sys.stderr)
    return dataset


def run_data(parameters: ExperimentParameters, dataset: Dataset) -> RunData:
    content = has_content(dataset.X_train)
    if not content.any():
        raise NesiError(f"every training point of {parameters.dataset} is zero in every input: nothing to learn.")
    return RunData(
        name=parameters.dataset,
        X_train=dataset.X_train,
        y_train=np.where(content, np.asarray(dataset.y_train), UNLABELED),
        X_test=dataset.X_test,
        y_test=np.asarray(dataset.y_test),
        n_classes=len(dataset.class_names),
    )


def warnings_about_content(data: RunData) -> list[str]:
    """What is to be said about points that are zero in every input."""
    return [
        about_empty_points(int((~filled).sum()), len(filled), learning)
        for filled, learning in ((data.content, True), (has_content(data.X_test), False))
        if not filled.all()
    ]


def all_tasks(parameters: ExperimentParameters, data: RunData, directory: ExperimentDirectory | None) -> list[RunTask]:
    """Every run of the table; the first run of every cell comes first, so that a picture emerges early."""
    same_for_all_runs = _cells(parameters, data) if parameters.per_run is None else None
    tasks = []
    for run in range(1, parameters.runs + 1):
        for cell in same_for_all_runs or _cells(parameters.for_run(run), data):
            name = run_name(cell.network, cell.labels, run)
            checkpoint = str(directory.checkpoint_file(name).absolute()) if directory else None
            tasks.append(RunTask(cell.parameters, cell.network, cell.labels, run, checkpoint))
    return tasks


def with_companions(tasks: list[RunTask], n_classes: int) -> list[RunTask]:
    """Let every run know which others could be trained together with it."""
    groups: dict[str, list[RunTask]] = {}
    for task in tasks:
        # Whoever wants to see the test error during training trains each network by itself.
        together = learns_side_by_side(task.parameters, task.network, n_classes)
        if together and not task.parameters.test_error_every:
            identity = task.identity()
            same = {key: identity.get(key) for key in (*OF_THE_RUN, "batch_size", *first_layer_settings())}
            groups.setdefault(json.dumps(same, sort_keys=True), []).append(task)
    companions = {
        task.name: tuple(other for other in group if other is not task) for group in groups.values() for task in group
    }
    return [replace(task, companions=companions.get(task.name, ())) for task in tasks]


def all_labels(parameters: ExperimentParameters, data: RunData) -> int:
    """What `all` stands for: training points of the data set may have no label."""
    available = int(np.count_nonzero(data.y_train >= 0))
    return available if parameters.train_size is None else min(available, parameters.train_size)


def _cells(parameters: ExperimentParameters, data: RunData) -> list[Cell]:
    available = all_labels(parameters, data)
    if parameters.train_size is not None and parameters.train_size > len(data.y_train):
        raise NesiError(
            f"train_size is {parameters.train_size}, but {data.name} has {len(data.y_train)} training points."
        )
    if parameters.test_size is not None and parameters.test_size > len(data.y_test):
        raise NesiError(f"test_size is {parameters.test_size}, but {data.name} has {len(data.y_test)} test points.")
    cells: list[Cell] = []
    for entry in parameters.labels:
        labels = available if entry == "all" else entry
        if labels > available:
            raise NesiError(
                f"labels: {labels} are asked for, but {data.name} has {available} labeled training points; "
                "ask for fewer with --labels, or for all."
            )
        if any(labels == cell.labels for cell in cells):
            raise NesiError(f"labels: 'all' and {labels} are the same for {data.name}; leave one of them out.")
        cells += [
            Cell(parameters.for_cell(network, labels, available), network, labels) for network in parameters.networks
        ]
    for cell in cells:
        _check_normalization(cell, data)
        if data.n_classes > cell.parameters.C:
            raise NesiError(
                f"C is {cell.parameters.C} ({cell.network} with {cell.labels} labels), but must be at least "
                f"{data.n_classes}: each class of {data.name} needs a unit of its own; more per class are better."
            )
    return cells


def _check_normalization(cell: Cell, data: RunData) -> None:
    inputs, A = data.X_train.shape[1], cell.parameters.A
    if inputs >= A:
        raise NesiError(f"A is {A:g} ({cell.network} with {cell.labels} labels), but {larger_than_the_inputs(inputs)}")


def sensible_threads(parameters: ExperimentParameters, data: RunData, one_at_a_time: bool) -> int:
    """All cores for one large run at a time; one thread per run if several are executed in parallel.

    Small runs get one thread in any case: it is faster, and their records do not depend on the number of workers.
    """
    return threads_for(data.X_train, parameters.C * parameters.committee) if one_at_a_time else 1


def describe_dataset(dataset: Dataset, data: RunData) -> DatasetDescription:
    sha = hashlib.sha256()
    for array in (data.y_train, data.y_test):
        sha.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    for matrix in (data.X_train, data.X_test):
        total = sum(
            float(np.sum(rows if isinstance(rows, np.ndarray) else rows.data, dtype=np.float64))
            for _, rows in parts_of(matrix)
        )
        sha.update(f"{matrix.shape}|{total!r}".encode())
    vocabulary = getattr(dataset, "vocabulary", None)
    return DatasetDescription(
        name=data.name,
        class_names=[str(name) for name in dataset.class_names],
        image_shape=list(dataset.image_shape) if dataset.image_shape else None,
        n_train=int(data.X_train.shape[0]),
        n_test=int(data.X_test.shape[0]),
        n_inputs=int(data.X_train.shape[1]),
        fingerprint=sha.hexdigest(),
        vocabulary=[str(word) for word in vocabulary] if vocabulary is not None else None,
        columns=None if dataset.preprocessing is None else dataset.preprocessing.names_of_inputs,
    )
