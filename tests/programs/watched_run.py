"""run_experiment.py that notes where it is, for whoever means to kill it at a chosen moment and say what it has hit.

The note is a file of `SIZE` bytes, shared memory that outlives the process: the stage, whether a file is being written,
and how many iterations or runs there were in this stage. With "checkpoint N" or "result N" the process kills itself in
the N-th step of writing such files, before or after the step or with half of a line written. No clock is fast enough to
hit these moments from outside.
"""

import io
import mmap
import os
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from watched_note import NOTE, SIZE

import nesi.experiment.one_run
import nesi.storage.records
from nesi.cli import run_main
from nesi.training.trainer import Trainer

_OF_PHASE = {"first": 1, "second": 2, "both": 3}
_BETWEEN_RUNS = 4


class Watched:
    """What is going on in this process."""

    def __init__(self, shared: mmap.mmap, kill_at: str) -> None:
        self._shared = shared
        self._kind, _, number = kill_at.partition(" ")
        self.number = int(number or 0)
        self._steps: Counter[str] = Counter()
        self._counts: Counter[int] = Counter()
        self._stage, self.writing = 0, False
        self.note(0)

    def note(self, stage: int) -> None:
        self._stage = stage
        self._counts[stage] += 1
        self._write()

    def sets_writing(self, writing: bool) -> None:
        self.writing = writing
        self._write()

    def _write(self) -> None:
        NOTE.pack_into(self._shared, 0, self._stage, self.writing, self._counts[self._stage])

    def is_last_step(self, path: str) -> bool:
        """Whether this step of writing is the one in which to end."""
        kind = "checkpoint" if "checkpoints" in Path(path).parts else "result"
        self._steps[kind] += 1
        return kind == self._kind and self._steps[kind] == self.number

    def end_here(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def watch(watched: Watched) -> None:
    """Take note of iterations and runs, and of every step of writing a file."""
    run_iteration, result = Trainer.run_iteration, nesi.experiment.one_run.RunInProgress.result
    replace, fsync, make_temporary = os.replace, os.fsync, tempfile.mkstemp

    def noted_iteration(self: Trainer) -> Any:
        watched.note(_OF_PHASE[self.phase])
        return run_iteration(self)

    def noted_result(self: Any, *arguments: Any) -> Any:
        watched.note(_BETWEEN_RUNS)
        return result(self, *arguments)

    def step(path: str, do: Callable[[], None]) -> None:
        last = watched.is_last_step(path)
        if last and watched.number % 2:
            watched.end_here()
        do()
        if last:
            watched.end_here()

    def noted_replace(source: Any, target: Any) -> None:
        step(str(target), lambda: replace(source, target))

    def noted_fsync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        step(path, lambda: fsync(descriptor))
        if os.path.isdir(path) or path.endswith(".jsonl"):  # the last step of writing a file
            watched.sets_writing(False)

    def noted_temporary(*arguments: Any, **options: Any) -> Any:
        watched.sets_writing(True)
        return make_temporary(*arguments, **options)

    class Line(io.FileIO):
        def write(self, content: Any) -> int:
            watched.sets_writing(True)
            if watched.is_last_step(str(self.name)):
                super().write(content[: len(content) // 2])
                watched.end_here()
            return super().write(content)

    def noted_open(path: Any, mode: str = "r", **options: Any) -> Any:
        return Line(path, "ab") if mode == "ab" else open(path, mode, **options)

    Trainer.run_iteration = noted_iteration  # type: ignore[method-assign]
    nesi.experiment.one_run.RunInProgress.result = noted_result  # type: ignore[method-assign]
    os.replace, os.fsync, tempfile.mkstemp = noted_replace, noted_fsync, noted_temporary  # type: ignore[assignment]
    nesi.storage.records.open = noted_open  # type: ignore[attr-defined]


def run(arguments: list[str], note: str, kill_at: str, errors: str) -> None:
    """The whole program, in a process that does nothing else; what it says goes to the file `errors`."""
    with open(errors, "w") as said, open(note, "r+b") as file:
        os.dup2(said.fileno(), 1)
        os.dup2(said.fileno(), 2)
        watch(Watched(mmap.mmap(file.fileno(), SIZE), kill_at))
        sys.exit(run_main(arguments))
