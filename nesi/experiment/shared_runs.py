"""`distribute: data`: runs one after the other, each of them trained by all workers together."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from nesi.errors import NesiError, TrainingFailed
from nesi.experiment.dask_team import LocalWorkers, team_of_cluster
from nesi.experiment.local import LARGEST_NUMBER_OF_ATTEMPTS, Listener, StopRequest
from nesi.experiment.one_run import RunInterrupted, train_run
from nesi.experiment.tasks import Progress, RunData, RunTask
from nesi.training.team import LocalTeam, Team, WorkerLost

Teams = Callable[[bool], AbstractContextManager[Team]]  # is this a repetition?


def execute_shared(tasks: list[RunTask], data: RunData, listener: Listener, stop: StopRequest, teams: Teams) -> None:
    """A lost worker takes the candidates of its points with it: the run goes on from its last checkpoint, with the
    workers that there are then. Nothing is counted twice, as nothing of what came after the checkpoint is kept."""
    for task in tasks:
        losses, iteration = 0, -1

        def note(progress: Progress) -> None:
            nonlocal losses, iteration
            if progress.iteration > iteration:
                losses, iteration = 0, progress.iteration
            listener.progress(progress)

        while True:
            if stop():
                return
            try:
                with teams(losses > 0) as team:
                    listener.finished(train_run(task, data, note, stop, listener.warn, team))
                break
            except RunInterrupted:
                return
            except TrainingFailed as error:
                listener.failed(task.name, str(error))
                break
            except WorkerLost:
                losses += 1
                if losses >= LARGEST_NUMBER_OF_ATTEMPTS:
                    raise NesiError(
                        f"{task.name}: workers were lost {losses} times without any progress; see their logs and "
                        "continue with --resume."
                    ) from None
                listener.warn(f"a worker of {task.name} was lost; training goes on from the last checkpoint.")


def number_of_workers(workers: int | None, scheduler: str | None) -> int:
    """How many there are now; as many parts the data gets, unless the parameters say how many."""
    if scheduler is None:
        return workers or 1
    with team_of_cluster(scheduler, None, patient=False) as team:
        return team.size


@contextlib.contextmanager
def teams_of(workers: int | None, scheduler: str | None, threads: int | None) -> Iterator[Teams]:
    """Where the workers are: on a cluster, in processes on this machine, or all in this process."""
    if scheduler is not None:
        yield lambda again: team_of_cluster(scheduler, threads, again)
    elif workers is not None:
        local = LocalWorkers(workers, threads or 1)
        try:
            yield lambda again: local.team()
        finally:
            local.close()
    else:
        yield lambda again: contextlib.nullcontext(LocalTeam(1, threads))
