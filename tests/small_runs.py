"""Runs in this process, which a test may interrupt."""

from __future__ import annotations

from nesi.experiment.one_run import train_run
from nesi.experiment.tasks import Progress, RunData, RunResult, RunTask


def execute(task: RunTask, data: RunData, stop_after: int | None = None) -> RunResult:
    """Train, and be asked to stop after some iterations from here on."""
    seen: list[Progress] = []

    def report(progress: Progress) -> None:
        if not progress.resumed:
            seen.append(progress)

    return train_run(task, data, report, lambda: stop_after is not None and len(seen) >= stop_after)
