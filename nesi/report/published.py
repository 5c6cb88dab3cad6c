"""The numbers of the paper, read from `published.yaml`."""

from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True)
class PublishedCell:
    """One cell of one table. `also` is the second value where the paper contradicts itself."""

    network: str
    labels: int
    mean: float
    sem: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    runs: int | None = None
    table: str = ""
    where: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # those of this cell, where they are not the experiment's
    also: dict[str, Any] = field(default_factory=dict)
    class_assignment: str = "implicit"
    fields: int | None = None  # labeled by the user
    more_tuning_labels: bool = False
    log_likelihood: float | None = None
    log_likelihood_sem: float | None = None
    log_likelihood_std: float | None = None
    note: str = ""


@dataclass(frozen=True)
class PublishedExperiment:
    """One table (or one sentence with a number) of the paper and the settings behind it."""

    name: str
    title: str
    dataset: str
    classes: int
    train: int
    cells: tuple[PublishedCell, ...]
    settings: dict[str, Any]
    test: int | None = None
    tuning_labels: int | None = None
    another_part_of: str | None = None  # the experiment whose numbers these are, if our data is not the paper's
    all_labels: int | None = None  # of our data, if it is not the paper's

    def cell(self, network: str, labels: int, settings: dict[str, Any]) -> PublishedCell | None:
        """The published counterpart of a run, or None when the paper has no such cell."""
        labels = self.train if labels == self.all_labels else labels
        assignment = "user" if settings.get("field_labels") else settings.get("class_assignment", "implicit")
        for cell in self.cells:
            if (
                cell.network in (network, "any")
                and cell.labels == labels
                and cell.class_assignment == assignment
                and all(settings.get(key) == value for key, value in cell.where.items())
            ):
                return cell
        return None


@dataclass(frozen=True)
class CompetingMethod:
    """A result of another method; `tuning_labels` came on top of the training labels."""

    method: str
    dataset: str
    labels: int
    error: float
    source: str
    cite: str
    tuning_labels: int | None = None
    tuning_labels_at_least: bool = False
    units: int | None = None
    class_assignment: str = "implicit"
    listed_under: int | None = None


@dataclass(frozen=True)
class Published:
    experiments: dict[str, PublishedExperiment]
    other_parts: dict[str, PublishedExperiment]  # other data of the same kind, with the numbers of an experiment
    competing: tuple[CompetingMethod, ...]
    tunable_parameters: tuple[dict[str, str], ...]
    stated: dict[str, dict[str, Any]]  # outside of any table


@cache
def published() -> Published:
    """All of it; read once."""
    text = resources.files("nesi.report").joinpath("published.yaml").read_text(encoding="utf-8")
    content = yaml.safe_load(text)
    experiments = {}
    for name, entry in content["experiments"].items():
        cells = tuple(PublishedCell(**cell) for cell in entry.pop("cells"))
        experiments[name] = PublishedExperiment(name=name, cells=cells, **entry)
    other_parts = {
        name: replace(experiments[entry["another_part_of"]], name=name, **entry)
        for name, entry in content["other_parts"].items()
    }
    return Published(
        experiments=experiments,
        other_parts=other_parts,
        competing=tuple(CompetingMethod(**entry) for entry in content["competing"]),
        tunable_parameters=tuple(content["tunable_parameters"]),
        stated=content["stated"],
    )


def published_experiment(name: str) -> PublishedExperiment | None:
    return published().experiments.get(name) or published().other_parts.get(name)
