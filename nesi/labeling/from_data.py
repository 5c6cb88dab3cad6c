"""From data without labels to a run whose fields wait for a person: `nesi label DATA --classes a,b,c`."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import data_tools
from data_tools.errors import NoLabels
from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import with_changes
from nesi.errors import NesiError
from nesi.experiment.running import run_experiment
from nesi.labeling.naming import checked_names
from nesi.observations import suggested_normalization
from nesi.storage.experiment_directory import ExperimentDirectory
from nesi.storage.records import RECORDS

_POINTS_PER_UNIT = 20  # a person is asked about units: few points would tell little about each
_MOST_UNITS, _FEWEST_PER_CLASS = 1000, 5


def is_run(path: Path) -> bool:
    """Whether it is the directory of an experiment, rather than data."""
    return (path / RECORDS).is_file() or (path / "params.yaml").is_file()


def trained_without_labels(
    data: str,
    classes: str | None,
    out: Path | None,
    fields: int | None,
    changes: dict[str, Any],
    data_dir: Path | None,
    ask: Callable[[str], list[str]] | None = None,
) -> Path:
    """Train on the data, or find that this was done before; the directory of the run.

    `ask` gets the names of the classes of data from the person, where neither the data nor `classes` has them.
    """
    directory = out or Path("runs") / f"label-{Path(data).stem or 'data'}"
    place = ExperimentDirectory(directory)
    if place.parameters_file.exists() and classes is None and not changes:
        parameters = place.parameters()
        if parameters.dataset != data:
            raise NesiError(f"{directory} belongs to {parameters.dataset}; choose another --out.")
    else:
        parameters = _parameters(data, _names(classes), fields, changes, data_dir, ask)
    outcome = run_experiment(parameters, directory, resume=place.parameters_file.exists(), data_dir=data_dir)
    if outcome.failures or outcome.missing:
        reason = outcome.failures[0] if outcome.failures else "it was stopped; the same command continues it"
        raise NesiError(f"the network was not trained: {reason}.")
    return directory


def _parameters(
    data: str,
    classes: list[str] | None,
    fields: int | None,
    changes: dict[str, Any],
    data_dir: Path | None,
    ask: Callable[[str], list[str]] | None,
) -> ExperimentParameters:
    options = {key.removeprefix("data."): value for key, value in changes.items() if key.startswith("data.")}
    if classes is not None:
        options["classes"] = classes
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the run says the same when it loads the data
        try:
            dataset = data_tools.load(data, data_dir=data_dir, **options)
        except NoLabels:
            if ask is None:
                raise NesiError(f"{data} has no label: name its classes, with --classes cat,dog.") from None
            options["classes"] = ask(data)
            dataset = data_tools.load(data, data_dir=data_dir, **options)
    labeled = int(np.count_nonzero(dataset.y_train >= 0))
    if labeled == len(dataset.y_train):
        raise NesiError(
            f"every training point of {data} has a label, so there is nothing to ask about; train with "
            "run_experiment.py, or use a parameter file with field_labels."
        )
    n_train, n_inputs = dataset.X_train.shape
    fewest = max(_FEWEST_PER_CLASS * len(dataset.class_names), 2)
    C = int(min(max(fewest, min(_MOST_UNITS, n_train // _POINTS_PER_UNIT)), max(n_train, 2)))
    content: dict[str, Any] = {
        "dataset": data,
        "data": options,
        "C": max(C, len(dataset.class_names)),
        "A": suggested_normalization(n_inputs),
        "networks": ["ff+"],
        "labels": ["all"] if labeled else [0],
        "runs": 1,
        "greedy": True,  # safe, as the page spreads answers, and fast
        "tolerance": 0.005,
        "iterations": 300,
    }
    if not labeled:
        units = changes.get("C", content["C"])
        asked = min(fields or 100, units) if isinstance(units, int) else 1  # what is no number is refused below
        content["field_labels"] = {"fields": asked, "choose": "informative", "by": "person", "spread": True}
    rest = {key: value for key, value in changes.items() if not key.startswith("data.")}
    return with_changes(content, rest, f"nesi label {data}")


def _names(given: str | None) -> list[str] | None:
    return None if given is None else checked_names(given.split(","), f"--classes is {given[:60]!r}")
