"""What a parameter file leaves to the program, chosen when the data is known; from then on it is like any other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from data_tools.dataset import Dataset
from nesi.automatic import Choice, Facts, choices
from nesi.config.left_out import CHOSEN
from nesi.config.parameters import ExperimentParameters
from nesi.observations import has_content

_FOR_ALL_CELLS = ("training", "network")  # no override may change them


def still_open(parameters: ExperimentParameters) -> bool:
    return bool(_open_keys(parameters))


def _open_keys(parameters: ExperimentParameters) -> list[str]:
    """What was chosen before, and may have been edited since, is like what the user gave."""
    return [key for key, reason in parameters.automatic.items() if not reason]


def with_choices(parameters: ExperimentParameters, dataset: Dataset) -> ExperimentParameters:
    """The parameters with everything chosen; what depends on the number of labels is in overrides."""
    if not still_open(parameters):
        return parameters
    given = _given(parameters)
    by_labels: dict[Any, dict[str, Choice]] = {}
    for entry in parameters.labels:
        chosen = choices(_facts(parameters, dataset, entry), given)
        by_labels[entry] = chosen
        given |= {name: chosen[name].value for name in _FOR_ALL_CELLS if name in chosen}
    first = by_labels[parameters.labels[0]]
    changes: dict[str, Any] = {}
    reasons = dict(parameters.automatic)
    overrides: dict[Any, dict[str, Any]] = {entry: {} for entry in by_labels}
    for key in _open_keys(parameters):
        name = "network" if key == "networks" else key
        if key == "runs":
            changes[key], reasons[key] = 1, "1 (several runs would show how much is luck)"
            continue
        values = {entry: chosen.get(name, first[name]) for entry, chosen in by_labels.items()}
        reasons[key] = _reason(values)
        if len({choice.value for choice in values.values()}) == 1:
            changes[key] = [first[name].value] if key == "networks" else first[name].value
            continue
        changes[key] = None if any(choice.value is None for choice in values.values()) else first[name].value
        for entry, choice in values.items():
            if choice.value is not None:
                overrides[entry][key] = choice.value
    ours = [{"labels": [entry], **changed} for entry, changed in overrides.items() if changed]
    return parameters.changed(**changes, overrides=[*ours, *parameters.overrides], automatic=reasons)


def in_words(parameters: ExperimentParameters) -> list[str]:
    """One line for each choice that sets something."""
    return [f"{key} = {reason}" for key, reason in parameters.automatic.items() if not reason.startswith("none (")]


def _reason(values: dict[Any, Choice]) -> str:
    if len(set(values.values())) == 1:
        value, reason = next(iter(values.values()))
        return f"{_shown(value)} ({reason})"
    return "; ".join(f"{entry} labels: {_shown(value)} ({reason})" for entry, (value, reason) in values.items())


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _given(parameters: ExperimentParameters) -> dict[str, Any]:
    """What the file itself says, as far as choices look at it."""
    left = _open_keys(parameters)
    given = {
        name: getattr(parameters, name) for name in CHOSEN if name not in left and name not in ("networks", "runs")
    }
    given |= {key: getattr(parameters, key) for key in ("backend", "committee", "distribute")}
    given |= {"stopping": True} if parameters.stopping else {}
    for start in ("W_init", "R_init"):
        if given.get(start, "") is None:
            del given[start]
    if "networks" not in left:
        given["network"] = parameters.networks[0] if len(parameters.networks) == 1 else "several"
    return given


def _facts(parameters: ExperimentParameters, dataset: Dataset, entry: int | str) -> Facts:
    """With as many training points and labels as a run will have."""
    content = has_content(dataset.X_train)
    y = np.asarray(dataset.y_train)
    known = np.bincount(y[content & (y >= 0)], minlength=len(dataset.class_names))
    available = int(known.sum())
    points = min(int(content.sum()), parameters.train_size or len(y))
    labels = min(available, points) if entry == "all" else int(entry)
    certain = parameters.label_noise is None and parameters.field_labels is None
    every_class = bool(certain and known.all() and labels >= len(known))
    how = dataset.preprocessing
    facts = Facts.of(dataset.X_train, len(known), labels, every_class, how is not None and how.low is not None)
    return replace(facts, points=points)
