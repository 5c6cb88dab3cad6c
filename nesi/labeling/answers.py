"""What the person has said so far, on disk at every click.

One line per event in `answers.jsonl`, written durably before the page hears that it was taken. An undo is an event as
well, so nothing is ever deleted; the answers are what the events add up to.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nesi.errors import NesiError
from nesi.fields.labels import Answers, checked_answer
from nesi.storage.records import (
    Record,
    append_record,
    make_directory,
    read_what_is_left,
    repair_records,
    replace_records,
    write_whole,
)

FILE = "answers.jsonl"


class _Replayed(NamedTuple):
    kept: list[tuple[Record, tuple[int, np.ndarray | None]]]  # lines that count, as field and answer
    unreadable: list[int]  # numbers of lines


def _free_name(directory: Path) -> Path:
    names = (directory / f"answers-unreadable-{number}.jsonl" for number in itertools.count(1))
    return next(path for path in names if not path.exists())


class AnswerLog:
    """Answers and skipped fields of one run; None stands for a skipped field."""

    def __init__(self, directory: Path, run: str, weights: str, n_fields: int, n_classes: int) -> None:
        """`weights`: their hash. Field numbers mean nothing for any other weights."""
        self._directory, self._about = directory, {"run": run, "weights": weights}
        self._n_fields, self._n_classes = n_fields, n_classes
        self._events: list[tuple[int, np.ndarray | None]] = []
        self.notice: str | None = None  # what the person should know before going on
        make_directory(directory)
        lines = read_what_is_left(directory / FILE, {"run": str})
        if any(line and line.get("weights") != weights for line in lines):
            raise NesiError(
                f"{directory / FILE} holds answers for other weights of {run}; move it away to start from scratch."
            )
        read = self._replayed(lines)
        self._events = [(field, answer) for _, (field, answer) in read.kept]
        if read.unreadable:
            aside = _free_name(directory)
            write_whole(aside, lambda stream: stream.writelines([(directory / FILE).read_bytes()]))
            replace_records(directory / FILE, [line for line, _ in read.kept])
            numbers = ", ".join(map(str, read.unreadable[:10])) + (", ..." if len(read.unreadable) > 10 else "")
            self.notice = (
                f"{directory / FILE} could not be read in line {numbers}; {len(read.kept)} answers are left, and the "
                f"file as it was is kept as {aside.name}."
            )
        repair_records(directory, FILE, {"run": str})

    def _replayed(self, lines: list[Record]) -> _Replayed:
        """What the events add up to. An undo after an event that can't be read takes that one back."""
        done: list[tuple[Record, tuple[int, np.ndarray | None]] | None] = []
        unreadable: list[int] = []
        for number, line in enumerate(lines, start=1):
            if line.get("event") == "undo":
                if done:
                    done.pop()
                continue
            try:
                done.append((line, self._checked(line["field"], line["answer"])))
            except (KeyError, NesiError):
                unreadable.append(number)
                done.append(None)
        return _Replayed([entry for entry in done if entry is not None], unreadable)

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
