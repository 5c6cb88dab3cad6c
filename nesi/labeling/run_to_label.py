"""A finished run whose fields a person labels."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from nesi.errors import NesiError
from nesi.experiment.finished_run import FinishedRun, finished_run
from nesi.experiment.predictions import write_predictions
from nesi.fields.labels import Answers, winning_fields
from nesi.fields.training import with_answers
from nesi.labeling.pictures import dense_row
from nesi.labeling.texts import Document, document, says_little
from nesi.seeds import random_stream
from nesi.threads import limited_threads
from nesi.training.trainer import Trainer


class RunToLabel:
    """What a person is shown of a run, and the training that goes on with the answers."""

    def __init__(self, run: FinishedRun) -> None:
        self._run = run
        self.name, self.record, self.task, self.dataset = run.name, run.record, run.task, run.dataset
        self.folder = run.directory.labeling(run.name)
        self._examples: dict[tuple[int, int], list[int]] = {}

    @property
    def W(self) -> np.ndarray:
        return self._run.network.W

    @property
    def R(self) -> np.ndarray:
        return self._run.network.R

    @property
    def points(self) -> Any:
        """The training points."""
        return self._run.training_set[0]

    @property
    def input_names(self) -> Sequence[str] | None:
        """Words, or the columns of a table."""
        if self.dataset.vocabulary is not None or self.dataset.preprocessing is None:
            return self.dataset.vocabulary
        return self.dataset.preprocessing.names_of_inputs

    @property
    def kind(self) -> str:
        """What a person is shown: images, texts, or values of named inputs."""
        if self.dataset.image_shape is not None:
            return "images"
        return "values" if self.dataset.vocabulary is None else "texts"

    @cached_property
    def hidden_words(self) -> np.ndarray | None:
        words = self.dataset.vocabulary
        return says_little(self.points, words) if words is not None and self.kind == "texts" else None

    def document(self, point: int) -> Document:
        """A training text, as it was written if its file is there."""
        row = int(np.arange(len(self._run.data.y_train))[self._run.points.training][point])
        names = self.dataset.point_names
        file = None if names is None else Path(self.task.parameters.dataset) / names[row]
        words, hidden = self.dataset.vocabulary, self.hidden_words
        if words is None or hidden is None:
            raise NesiError(f"{self.name} has no documents: its points are {self.kind}, expected texts.")
        return document(file, dense_row(self.points, point), words, hidden, row)

    @property
    def test_set(self) -> tuple[Any, np.ndarray]:
        return self._run.test_set

    @property
    def labels_points_itself(self) -> bool:
        return self._run.settings.network_kind.self_labeling

    @cached_property
    def activities(self) -> sp.csr_array:
        """s of the training points."""
        with limited_threads(self.task.parameters.threads):
            return self.trainer({}).activities()

    @cached_property
    def points_won(self) -> np.ndarray:
        return np.bincount(winning_fields(self.activities), minlength=len(self.W))

    @cached_property
    def _by_field(self) -> sp.csc_array:
        return sp.csc_array(self.activities)

    def examples(self, field: int, count: int) -> list[int]:
        """Training points that the field has most to do with, of equal ones those that look most like it.

        The page asks for them again and again, and the field may have very many points.
        """
        if (field, count) not in self._examples:
            self._examples[field, count] = self._found_examples(field, count)
        return self._examples[field, count]

    def _found_examples(self, field: int, count: int) -> list[int]:
        column = slice(self._by_field.indptr[field], self._by_field.indptr[field + 1])
        points, activities = self._by_field.indices[column], np.round(self._by_field.data[column], 2)
        order = np.lexsort((-self._likeness(field, points), -activities))[:count]
        return [int(point) for point in points[order]]

    def _likeness(self, field: int, points: np.ndarray) -> np.ndarray:
        """The cosine of points and field, this without the background."""
        expected = self.W[field] - self.W[field].min()
        X = sp.csr_array(self.points[points], dtype=np.float64)
        length = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return np.asarray(X @ expected) / np.maximum(length, 1e-30)

    def trainer(self, answers: Answers) -> Trainer:
        """The network with these answers, ready to go on."""
        X, labels = self._run.training_set
        return with_answers(self._run.settings, X, self.W, self.R, answers, self.stream("field labels"), labels)

    def write_predictions(self) -> Path | None:
        """For the points that nobody has labeled, by the network as the answers have made it."""
        return write_predictions(self._run.directory, self.dataset, self.name)

    def stream(self, purpose: str) -> np.random.Generator:
        task = self.task
        dataset = task.parameters.dataset
        return random_stream(task.parameters.seed, purpose, dataset, task.network, task.labels, task.run)


def run_to_label(directory: Path, name: str | None, data_dir: Path | None) -> RunToLabel:
    """The run called `name`, or the first one whose weights were kept."""
    run = finished_run(directory, name, data_dir)
    if run.task.parameters.legacy is not None or run.task.parameters.committee > 1:
        raise NesiError(
            f"{run.name} is a committee or a legacy run: its fields cannot be labeled; choose another --run."
        )
    _ = run.network  # so that weights that don't fit are noticed before a page is served
    return RunToLabel(run)
