"""What is tuned if a parameter file doesn't say: values around those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from data_tools.dataset import Dataset
from nesi.config.parameters import ExperimentParameters
from nesi.config.sections import TuningOptions
from nesi.errors import NesiError
from nesi.networks import get_network


def complete_options(parameters: ExperimentParameters, dataset: Dataset) -> TuningOptions:
    """The section `tuning` with its gaps filled: labels as the file has at most, and a grid of some twenty trials."""
    given = parameters.tuning or TuningOptions()
    return given.model_copy(
        update={
            "labels": given.labels or _labels(parameters, dataset),
            "grid": given.grid or _grid(parameters, dataset),
        }
    )


def _labels(parameters: ExperimentParameters, dataset: Dataset) -> int:
    available = int(np.count_nonzero(np.asarray(dataset.y_train) >= 0))
    most = max(available if entry == "all" else entry for entry in parameters.labels)
    if most < 2:
        raise NesiError("there are no labels to tune with: half of them would train, and half of them validate.")
    return min(most, available)


def _grid(parameters: ExperimentParameters, dataset: Dataset) -> dict[str, list[Any]]:
    n_train, inputs = dataset.X_train.shape
    C, A, rate = parameters.C, parameters.A, parameters.epsilon_W
    fewest, most = len(dataset.class_names), max(n_train // 2, C)
    grid: dict[str, list[Any]] = {
        "C": sorted({max(C // 3, fewest), C, min(3 * C, most)}),
        "A": [round(inputs + factor * (A - inputs), 1) for factor in (1 / 3, 1, 3)] if inputs < A else [A],
        "epsilon_W": sorted({rate, min(3 * rate, 1.0)}),
    }
    if any(get_network(name).self_labeling for name in parameters.networks):
        grid["threshold"] = sorted({0.3, 0.6, 0.9, parameters.threshold})
    return grid
