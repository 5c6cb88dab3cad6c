"""The trainer that belongs to the parameters of a cell: where it starts, and whose quirks it has."""

from __future__ import annotations

import numpy as np

from data_tools.dataset import Matrix
from nesi.config.parameters import ExperimentParameters
from nesi.experiment.first_layers import could_learn_side_by_side, has_common_first_layer, learns_side_by_side
from nesi.experiment.tasks import RunTask, training_settings
from nesi.observations import Observations
from nesi.seeds import random_stream
from nesi.training.initialization import Start, resolved_start
from nesi.training.shared import SharedTrainer
from nesi.training.side_by_side import SideBySideTrainer
from nesi.training.team import Team
from nesi.training.trainer import Trainer


def trainer_of_run(task: RunTask, X: Matrix, labels: np.ndarray, n_classes: int, team: Team | None = None) -> Trainer:
    """With the random stream of the run; or of its first layer, where all networks of a run have that in common."""
    parameters = task.parameters
    stream: tuple[str | int, ...] = ("training", parameters.dataset, task.network, task.labels, task.run)
    if has_common_first_layer(parameters, n_classes) or could_learn_side_by_side(parameters, task.network, n_classes):
        stream = ("first layer", parameters.dataset, 0 if parameters.share_first_layer else task.run)
    rng = random_stream(parameters.seed, *stream)
    return new_trainer(parameters, task.network, X, labels, n_classes, rng, task.run, team)


def new_trainer(
    parameters: ExperimentParameters,
    network: str,
    X: Matrix,
    labels: np.ndarray,
    n_classes: int,
    rng: np.random.Generator,
    run: int,
    team: Team | None = None,
) -> Trainer:
    """`parameters` have the overrides of the cell; `run` chooses among the files that weights may start from."""
    settings, legacy = training_settings(parameters, network), parameters.legacy
    W_init = start_of_W(parameters, run, X, labels, n_classes, rng)
    R_init = _start_of_R(parameters, run, n_classes)
    if legacy is not None and legacy.unlabeled_top_layer:
        from nesi.legacy.starts import one_row

        labels, n_classes = np.zeros(len(labels), dtype=np.int64), 1  # one class that has every point
        R_init = one_row(R_init)
    if legacy is not None and legacy.changes_training:
        from nesi.legacy.training import LegacyTrainer

        return LegacyTrainer(settings, X, labels, n_classes, rng, W_init, R_init, legacy)
    if team is not None:
        parts = parameters.parts or team.size
        return SharedTrainer(settings, X, labels, n_classes, rng, W_init, R_init, team=team, parts=parts)
    if learns_side_by_side(parameters, network, n_classes):
        return SideBySideTrainer(settings, X, labels, n_classes, rng, W_init, R_init)
    return Trainer(settings, X, labels, n_classes, rng, W_init, R_init)


def start_of_W(
    parameters: ExperimentParameters, run: int, X: Matrix, labels: np.ndarray, n_classes: int, rng: np.random.Generator
) -> Start:
    if parameters.legacy is not None:
        from nesi.legacy.starts import class_means_off_by_one, starts_off_by_one

        if starts_off_by_one(parameters, labels, n_classes):
            return class_means_off_by_one(Observations(X, parameters.A), labels, parameters.C, rng)
    return resolved_start(parameters.W_init, run, (1, 1), (parameters.C, X.shape[1]))


def _start_of_R(parameters: ExperimentParameters, run: int, n_classes: int) -> Start:
    layer = (2, 1) if parameters.greedy else (1, 2)  # MultiLayer and layer of the authors' program
    return resolved_start(parameters.R_init, run, layer, (n_classes, parameters.C))
