"""What the person has said so far, on disk at every click.

One line per event in `answers.jsonl`, written durably before the page hears that it was taken. An undo is an event as
well, so nothing is ever deleted; the answers are what the events add up to.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from nesi.errors import NesiError
from nesi.fields.labels import Answers, checked_answer
from nesi.storage.records import Record, append_record, make_directory, repair_records

FILE = "answers.jsonl"


class AnswerLog:
    """Answers and skipped fields of one run; None stands for a skipped field."""

    def __init__(self, directory: Path, run: str, weights: str, n_fields: int, n_classes: int) -> None:
        """`weights`: their hash. Field numbers mean nothing for any other weights."""
        self._directory, self._about = directory, {"run": run, "weights": weights}
        self._n_fields, self._n_classes = n_fields, n_classes
        self._events: list[tuple[int, np.ndarray | None]] = []
        make_directory(directory)
        for line in repair_records(directory, FILE):
            self._replay(line)

    def _replay(self, line: Record) -> None:
        path = self._directory / FILE
        if line.get("weights") != self._about["weights"]:
            raise NesiError(
                f"{path} holds answers for other weights of {line['run']}; move it away to start from scratch."
            )
        if line.get("event") == "undo":
            if self._events:
                self._events.pop()
            return
        try:
            answer = line["answer"]
            self._events.append(self._checked(line["field"], None if answer is None else answer))
        except (KeyError, NesiError) as error:
            raise NesiError(f"{path}: a line is not an answer ({error}); restore or remove it.") from None

    def _checked(self, field: object, weights: object) -> tuple[int, np.ndarray | None]:
        if isinstance(field, bool) or not isinstance(field, int) or not 0 <= field < self._n_fields:
            raise NesiError(f"Field {str(field)[:40]} does not exist: the fields are 0 to {self._n_fields - 1}.")
        return field, None if weights is None else checked_answer(weights, self._n_classes)

    def answer(self, field: object, weights: object) -> None:
        """Weights of the classes, or None to skip the field; replaces an earlier answer to the same field."""
        number, answer = self._checked(field, weights)
        self._write({"event": "answer", "field": number, "answer": None if answer is None else answer.tolist()})
        self._events.append((number, answer))

    def undo(self) -> None:
        if not self._events:
            raise NesiError("There is nothing to undo.")
        self._write({"event": "undo"})
        self._events.pop()

    def _write(self, event: Record) -> None:
        append_record(self._directory, {**self._about, **event, "time": datetime.now(UTC).isoformat()}, FILE)

    @property
    def last_field(self) -> int | None:
        return self._events[-1][0] if self._events else None

    @property
    def latest(self) -> dict[int, np.ndarray | None]:
        """The latest answer to each field that was asked, in the order of the questions."""
        latest: dict[int, np.ndarray | None] = {}
        for field, answer in self._events:
            latest[field] = answer
        return latest

    @property
    def answers(self) -> Answers:
        return {field: answer for field, answer in self.latest.items() if answer is not None}

    @property
    def digest(self) -> str:
        """Changes when an answer changes."""
        plain = sorted((field, answer.tolist()) for field, answer in self.answers.items())
        return hashlib.sha256(json.dumps(plain).encode()).hexdigest()
