"""What a run is: its task, the data it needs, what it reports on the way and what comes back."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nesi.checkpoints import Arrays
from nesi.config import ExperimentParameters
from nesi.networks import get_network, training_phases
from nesi.records import Record

SETTINGS = (
    *("C", "A", "epsilon_W", "epsilon_R", "threshold", "iterations", "batch_size", "minibatch_rule", "inference"),
    *("backend", "dtype", "shuffle", "stopping", "greedy", "tolerance", "W_init", "R_init", "train_size"),
    "share_first_layer",
)
# These appear among the settings of a record only if they are not left at their defaults.
RARE_SETTINGS = (
    *("test_size", "iterations_R", "stopping_width", "class_assignment", "committee", "test_inference"),
    *("class_prior", "label_noise"),
)


@dataclass(frozen=True)
class RunTask:
    """One run of one cell of the table; `parameters` already has the overrides of its cell."""

    parameters: ExperimentParameters
    network: str
    labels: int
    run: int
    checkpoint: str | None = None

    @property
    def name(self) -> str:
        return f"{self.network}-L{self.labels}-run{self.run}"

    @property
    def total_iterations(self) -> int:
        """At most: training that converges ends earlier."""
        phases = training_phases(self.network, self.parameters.greedy)
        if self.parameters.field_labels is not None:
            phases = ("both", *(phase for phase in phases if self.labels_points_itself and phase != "first"))
        numbers = {"second": self.parameters.iterations_R or self.parameters.iterations}
        return sum(numbers.get(phase, self.parameters.iterations) for phase in phases)

    @property
    def labels_points_itself(self) -> bool:
        """Not before a person has labeled fields, if that is what the run waits for."""
        options = self.parameters.field_labels
        return get_network(self.network).self_labeling and (options is None or options.by == "oracle")

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
        settings = self.parameters.model_dump(mode="json", include=set(SETTINGS))
        settings |= self.parameters.model_dump(mode="json", include=set(RARE_SETTINGS), exclude_defaults=True)
        if self.parameters.legacy is not None and (legacy := self.parameters.legacy.for_record()):
            settings["legacy"] = legacy
        if self.parameters.inference == "truncated":
            settings["truncated"] = self.parameters.truncated.model_dump()
        if self.parameters.field_labels is not None:
            settings["field_labels"] = self.parameters.field_labels.model_dump()
        return settings

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to belong to this run."""
        parameters = self.parameters.model_dump(mode="json", include={"dataset", "data", "seed", "threads"})
        return {**parameters, "network": self.network, "labels": self.labels, "run": self.run, **self.settings()}


@dataclass(frozen=True)
class RunData:
    """What a run needs of a data set. `y_train` is used to draw labels (or by the oracle that labels fields) only,
    `y_test` for the final test error only."""

    name: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    n_classes: int


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
    """What comes back: the record, the small arrays for the figures, and the weights if they are kept."""

    record: Record
    details: Arrays
    weights: Arrays = field(default_factory=dict)


def training_settings(parameters: ExperimentParameters, network: str) -> Any:
    """The part of the parameters that the trainer knows about."""
    from nesi.engines.truncated import TruncationSettings
    from nesi.training import TrainingSettings

    not_for_it = ("W_init", "R_init", "train_size", "share_first_layer")
    for_it = [key for key in (*SETTINGS, *RARE_SETTINGS) if key not in (*not_for_it, "test_size", "class_assignment")]
    chosen = {key: getattr(parameters, key) for key in for_it}
    search = TruncationSettings(**parameters.truncated.model_dump())
    return TrainingSettings(network=network, truncated=search, **chosen)
