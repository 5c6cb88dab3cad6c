"""One person, one network: which field is next, what is known, and what another answer would give."""

from __future__ import annotations

import string
import threading
from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.fields.choice import FieldMap, Outlook, choose_field
from nesi.fields.labels import class_beliefs
from nesi.labeling import pictures
from nesi.labeling.answers import AnswerLog
from nesi.labeling.rounds import TrainingRound, stored_result
from nesi.labeling.run_to_label import RunToLabel

SHOWN_EXAMPLES, SHOWN_TEXTS = 12, 6


class UnknownField(NesiError):
    """The page was not asked about this field."""


class Busy(NesiError):
    """Not while training is under way."""


class LabelingSession:
    """All that the page shows and does; one thing at a time."""

    def __init__(self, run: RunToLabel, fields: int, choose: str) -> None:
        self._run, self._target, self._choose = run, fields, choose
        self.directory = run.folder
        K, C = run.R.shape
        self._log = AnswerLog(self.directory, run.name, run.record["weights_sha256"], C, K)
        self.notice = self._log.notice
        self._map = FieldMap(run.activities)
        self._known = class_beliefs(run.R)
        self._order = run.stream("fields").permutation(C)
        self._round: TrainingRound | None = None
        self._lock = threading.RLock()
        self._look()

    def _look(self) -> None:
        """What follows from the answers."""
        asked = np.array(list(self._log.latest), dtype=np.int64)
        self._outlook: Outlook = self._map.outlook(self._known, self._log.answers, asked)
        self._current = choose_field(self._choose, self._outlook.gains, self._order, asked)

    # ---- what the person does -----------------------------------------------------------------------------------

    def answer(self, field: Any, weights: Any) -> None:
        """Answer the question, or change the answer to an earlier one; `weights` None skips."""
        with self._lock:
            self._check_idle()
            self._check_shown(field)
            self._log.answer(field, weights)
            self._look()

    def undo(self) -> None:
        with self._lock:
            self._check_idle()
            last = self._log.last_field
            self._log.undo()
            self._look()
            if last not in self._log.latest:
                self._current = last

    def train(self) -> None:
        with self._lock:
            self._check_idle()
            if not self._log.answers:
                raise NesiError("No field has a label yet: label at least one before training goes on.")
            answers = self._log.answers
            given = self._map.spread(self._known, answers)
            self._round = TrainingRound(self._run, self.directory, answers, given, self._log.digest)
            self._round.start()

    def wait(self) -> None:
        """Until training with the answers is done."""
        if self._round is not None:
            self._round.wait()

    def examples(self, field: int) -> list[int]:
        """Training points that the field has most to do with."""
        return self._run.examples(field, SHOWN_EXAMPLES)

    def stop_training(self) -> None:
        if self._round is not None:
            self._round.stop()

    def end(self) -> None:
        """Wait for a training that is about to write its result."""
        if self._round is not None and self._round.running:
            self._round.stop()
            self._round.wait(10)

    def _check_idle(self) -> None:
        if self._round is not None and self._round.running:
            raise Busy("Training is under way: wait for it to end, or stop it.")

    def _check_shown(self, field: Any) -> None:
        shown = {*self._log.latest, self._current}
        if isinstance(field, bool) or not isinstance(field, int) or field not in shown:
            raise UnknownField(f"Field {str(field)[:40]} was not asked about: answer the one that is shown.")

    # ---- what the page shows --------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        with self._lock:
            latest = self._log.latest
            names = [str(name) for name in self._run.dataset.class_names]
            return {
                "run": self._run.name,
                "dataset": self._run.task.parameters.dataset,
                "network": self._run.task.network,
                "n_fields": len(self._run.W),
                "n_train": int(self._run.record["n_train"]),
                "kind": self._run.kind,
                "self_labeling": self._run.labels_points_itself,
                "classes": [{"name": name, "key": key} for name, key in zip(names, class_keys(names), strict=True)],
                "target": self._target,
                "asked": len(latest),
                "labeled": len(self._log.answers),
                "decided": round(self._outlook.decided, 4),
                "current": None if self._current is None else self.describe(self._current),
                "history": [{"field": field, "answer": _plain(answer)} for field, answer in reversed(latest.items())],
                "training": self._training(),
            }

    def describe(self, field: int) -> dict[str, Any]:
        """One field: how it looks, what is believed of it, and what its answer would give."""
        with self._lock:
            self._check_shown(field)
            n_train = int(self._run.record["n_train"])
            described: dict[str, Any] = {
                "field": field,
                "beliefs": [round(float(value), 4) for value in self._outlook.beliefs[field]],
                "wins": int(self._run.points_won[field]),
                "gain": round(float(self._outlook.gains[field]) * n_train),
                "answer": _plain(self._log.latest.get(field)),
            }
            points = self._run.examples(field, SHOWN_EXAMPLES)
            kind = self._run.kind
            if kind == "images":
                described["examples"] = points
                return described
            X, inputs, hidden = self._run.points, self._run.input_names, self._run.hidden_words
            described["words"] = pictures.words(self._run.W[field], inputs, hidden=hidden)
            if kind == "texts":
                described["documents"] = [self._run.document(point) for point in points[:SHOWN_TEXTS]]
            else:
                described["rows"] = [pictures.words(pictures.dense_row(X, point), inputs, 8) for point in points[:4]]
            return described

    def field_picture(self, field: int) -> bytes:
        self._check_shown(field)
        return self._picture(self._run.W[field])

    def point_picture(self, point: int) -> bytes:
        """A training point as a picture; its label stays where it is."""
        X = self._run.points
        if not 0 <= point < X.shape[0]:
            raise UnknownField(f"There is no training point {point}.")
        return self._picture(pictures.dense_row(X, point))

    def _picture(self, values: np.ndarray) -> bytes:
        shape = self._run.dataset.image_shape
        if shape is None:
            raise UnknownField("The points of this data are not images, so there are no pictures of them.")
        return pictures.picture(values, shape)

    def _training(self) -> dict[str, Any]:
        if self._round is not None and (self._round.running or self._round.progress["status"] == "failed"):
            return self._round.progress
        result = stored_result(self.directory)
        if result is None:
            return {"status": "none"}
        return {"status": "done", "current": result["answers_sha256"] == self._log.digest, **result}


def class_keys(names: list[str]) -> list[str | None]:
    """The key of each class: its own name if it is one character, else 1 to 9, 0 and then letters."""
    if all(len(name) == 1 and name.isprintable() and name not in " ." for name in names):
        return list(names)
    keys = "1234567890" + string.ascii_lowercase
    return [keys[number] if number < len(keys) else None for number in range(len(names))]


def _plain(answer: np.ndarray | None) -> list[float] | None:
    return None if answer is None else [round(float(value), 4) for value in answer]
