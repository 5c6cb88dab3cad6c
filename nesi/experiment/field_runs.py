"""Runs in which fields are labeled, by the oracle or later by a person: how they train, and what they record."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from data_tools.dataset import Matrix
from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.experiment.tasks import RunData, RunTask, training_settings
from nesi.experiment.trainers import start_of_W
from nesi.fields.labels import ORACLE
from nesi.fields.training import FieldLabelTrainer, OracleSurvey
from nesi.labels import UNLABELED
from nesi.seeds import random_stream
from nesi.storage.arrays import Arrays


def field_label_trainer(task: RunTask, data: RunData, X: Matrix, classes: np.ndarray) -> FieldLabelTrainer:
    """`classes`: of the points in X, for the oracle."""
    parameters = task.parameters
    options = parameters.field_labels
    assert options is not None
    if options.fields > parameters.C:
        raise NesiError(
            f"field_labels.fields is {options.fields}, but {task.network} has only C = {parameters.C} fields; "
            "ask about fewer."
        )
    if parameters.train_size is not None:
        raise NesiError("train_size cannot be used with field_labels; leave one of them out.")
    survey = None
    if options.by == "oracle":
        # The stream leaves the network out: in the same run all networks of one size are asked about the same numbers.
        order = random_stream(parameters.seed, "fields", parameters.dataset, parameters.C, task.run)
        survey = OracleSurvey(classes, options.fields, options.choose, options.answers == "distribution", order)
    settings = training_settings(parameters, task.network)
    rng = random_stream(parameters.seed, "training", parameters.dataset, task.network, task.labels, task.run)
    unlabeled = np.full(X.shape[0], UNLABELED)
    W_init = start_of_W(parameters, task.run, X, unlabeled, data.n_classes, rng)
    return FieldLabelTrainer(settings, X, data.n_classes, rng, survey, W_init, options.spread)


def about_field_labels(parameters: ExperimentParameters, trainer: FieldLabelTrainer) -> tuple[dict[str, Any], Arrays]:
    """For the record: who was asked how much. For the details: each question and its answer, zeros for none."""
    options = parameters.field_labels
    assert options is not None
    asked = trainer.asked if trainer.asked is not None else np.empty(0, dtype=np.int64)
    nothing = np.zeros(len(trainer.R))
    answers = np.array([trainer.answers.get(int(field), nothing) for field in asked]).reshape(len(asked), len(nothing))
    about = {
        "by": options.by,
        "asked": len(asked),
        "answered": len(trainer.answers),
        "fields_sha256": hashlib.sha256(asked.astype("<i8").tobytes()).hexdigest(),
    }
    if options.by == "oracle":
        about["oracle"] = ORACLE
    return about, {"asked_fields": asked, "field_answers": answers}
