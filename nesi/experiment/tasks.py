"""What a run is: its task, the data it needs, what it reports on the way and what comes back."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from data_tools.dataset import Matrix
from nesi.config.network_parameters import NetworkParameters
from nesi.config.parameters import ExperimentParameters
from nesi.networks import get_network, training_phases
from nesi.observations import has_content
from nesi.storage.arrays import Arrays
from nesi.storage.experiment_directory import run_name
from nesi.storage.records import Record
from nesi.training.settings import TrainingSettings

if TYPE_CHECKING:
    from nesi.trained import TrainedNetwork


@dataclass(frozen=True)
class RunTask:
    """One run of one cell of the table; `parameters` already has the overrides of its cell."""

    parameters: ExperimentParameters
    network: str
    labels: int
    run: int
    checkpoint: str | None = None
    companions: tuple[RunTask, ...] = ()  # other runs that are still to do and have the same first layer

    @property
    def name(self) -> str:
        return run_name(self.network, self.labels, self.run)

    @property
    def total_iterations(self) -> int:
        """At most: training that converges ends earlier."""
        phases = training_phases(self.network, self.parameters.greedy, self.parameters.spread is not None)
        if self.parameters.field_labels is not None:
            phases = ("both", *(phase for phase in phases if self.labels_points_itself and phase != "first"))
        numbers = {"second": self.parameters.iterations_R or self.parameters.iterations}
        return sum(numbers.get(phase, self.parameters.iterations) for phase in phases)

    @property
    def labels_points_itself(self) -> bool:
        """Not before a person has labeled fields, if that is what the run waits for."""
        return get_network(self.network).self_labeling and not self.waits_for_a_person

    @property
    def waits_for_a_person(self) -> bool:
        """Nobody has said yet what the fields are: there is nothing to test."""
        options = self.parameters.field_labels
        return options is not None and options.by == "person"

    @property
    def steady(self) -> bool:
        """Whether all iterations will be needed, and each takes as long as the others."""
        settings = self.parameters
        return settings.tolerance is None and not settings.stopping and not settings.greedy

    @property
    def keeps_weights(self) -> bool:
        keep = self.parameters.keep_weights
        return keep == "all" or (keep == "first" and self.run == 1)

    def settings(self) -> dict[str, Any]:
        return self.parameters.settings_for_record()

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to belong to this run."""
        parameters = self.parameters.model_dump(mode="json", include={"dataset", "data", "seed", "threads"})
        return {**parameters, "network": self.network, "labels": self.labels, "run": self.run, **self.settings()}


@dataclass(frozen=True)
class RunData:
    """What a run needs of a data set. `y_train` is used to draw labels (or by the oracle that labels fields) only,
    `y_test` for the final test error only. A training point without content has no label here, and is left out."""

    name: str
    X_train: Matrix
    y_train: np.ndarray
    X_test: Matrix
    y_test: np.ndarray
    n_classes: int

    @cached_property
    def content(self) -> np.ndarray:
        """Which training points have any."""
        return has_content(self.X_train)


@dataclass(frozen=True)
class Progress:
    """One iteration of one run has ended. `resumed` iterations were done by an earlier invocation."""

    name: str
    iteration: int
    iterations: int
    log_likelihood: float | None
    self_labeled: float | None
    resumed: bool = False


@dataclass(frozen=True)
class RunResult:
    """What comes back: the record, the small arrays for the figures, and the trained network if it is kept.

    With the network come the points that a reader of the report can look at.
    """

    record: Record
    details: Arrays = field(default_factory=dict)
    network: TrainedNetwork | None = None
    shown: Arrays = field(default_factory=dict)


def training_settings(parameters: ExperimentParameters, network: str) -> TrainingSettings:
    """The part of the parameters that the trainer knows about."""
    return TrainingSettings(
        network=network, **{key: getattr(parameters, key) for key in NetworkParameters.model_fields}
    )
