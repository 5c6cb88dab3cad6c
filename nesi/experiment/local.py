"""Execute runs: one after the other, or on several workers of this machine. A cluster is in `nesi.experiment.cluster`.

Every executor takes the same tasks and tells the same listener; only the listener (the experiment) writes records.
"""

import contextlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import time
import traceback
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from nesi.errors import NesiError, TrainingFailed
from nesi.experiment.one_run import RunInterrupted, train_run
from nesi.experiment.shared_data import large_parts_in_files, opened
from nesi.experiment.tasks import Progress, RunData, RunResult, RunTask
from nesi.threads import thread_environment

LARGEST_NUMBER_OF_ATTEMPTS = 3
SECONDS_BETWEEN_REPORTS = 0.2


class Listener(Protocol):
    """Is told what happens to runs: called in the main process, one call at a time."""

    def progress(self, progress: Progress) -> None: ...
    def finished(self, result: RunResult) -> None: ...
    def failed(self, name: str, sentence: str) -> None: ...
    def warn(self, sentence: str) -> None: ...


class StopRequest:
    """Remembers a signal, so that training can end after the current iteration, with a checkpoint."""

    def __init__(self) -> None:
        self.signal: int | None = None

    def __call__(self) -> bool:
        return self.signal is not None

    @contextlib.contextmanager
    def listening(self) -> Any:
        """Take SIGINT and SIGTERM for requests to stop; a second SIGINT interrupts at once."""

        def remember(number: int, _frame: Any) -> None:
            if self.signal is not None and number == signal.SIGINT:
                raise KeyboardInterrupt
            self.signal = number

        before = {number: signal.signal(number, remember) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def execute_here(tasks: list[RunTask], data: RunData, listener: Listener, stop: StopRequest) -> None:
    """One run after the other in this process."""
    for task in tasks:
        if stop():
            return
        try:
            listener.finished(train_run(task, data, listener.progress, stop, listener.warn))
        except RunInterrupted:
            return
        except TrainingFailed as error:
            listener.failed(task.name, str(error))


@dataclass
class _Worker:
    process: Any
    connection: multiprocessing.connection.Connection
    task: RunTask | None = None


def execute_on_workers(
    tasks: list[RunTask], data: RunData, listener: Listener, stop: StopRequest, workers: int, threads: int
) -> None:
    """Several runs in parallel, each in a process of its own that gets the data once, when it is started."""
    folder = Path(tasks[0].checkpoint).parent if tasks and tasks[0].checkpoint else None
    with large_parts_in_files(data, folder) as sent:
        _execute_with_a_team(tasks, sent, listener, stop, workers, threads)


def _execute_with_a_team(
    tasks: list[RunTask], data: RunData, listener: Listener, stop: StopRequest, workers: int, threads: int
) -> None:
    """Hand out the runs.

    A worker that dies (killed, out of memory) costs the time since the last checkpoint of its run and nothing else:
    the run goes to the front of the queue and a new worker takes the place of the dead one.
    """
    waiting = deque(side_by_side(tasks, workers))
    attempts: dict[str, int] = {}
    team: list[_Worker] = []
    try:
        while waiting or any(worker.task for worker in team):
            if stop():
                _stop_team(team, listener)
                return
            while len(team) < min(workers, len(waiting) + sum(worker.task is not None for worker in team)):
                team.append(_start_worker(data, threads))
            for worker in team:
                if worker.task is None and waiting:
                    _give(worker, waiting.popleft())
            for worker in _ready(team):
                if not _receive(worker, listener):
                    team.remove(worker)
                    if worker.task is not None:
                        _try_again(worker.task, attempts, listener)
                        waiting.appendleft(worker.task)
    finally:
        for worker in team:
            worker.connection.close()
        for worker in team:
            worker.process.join(timeout=2 if worker.task is None else 0)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()


def side_by_side(tasks: list[RunTask], workers: int) -> list[RunTask]:
    """As many runs of a cell next to each other as there are workers.

    The cells of one run often have their first layer in common: were they given out together, all workers but one would
    wait for it.
    """
    cells = list(dict.fromkeys((task.network, task.labels) for task in tasks))

    def place(task: RunTask) -> tuple[int, int, int]:
        return (task.run - 1) // workers, cells.index((task.network, task.labels)), task.run

    return sorted(tasks, key=place)


def _try_again(task: RunTask, attempts: dict[str, int], listener: Listener) -> None:
    attempts[task.name] = attempts.get(task.name, 0) + 1
    if attempts[task.name] >= LARGEST_NUMBER_OF_ATTEMPTS:
        raise NesiError(
            f"{task.name}: {attempts[task.name]} workers died while running it, probably out of memory; "
            "use fewer --workers and continue with --resume."
        )
    listener.warn(f"the worker of {task.name} died; the run continues on a new one.")


def _start_worker(data: RunData, threads: int) -> _Worker:
    # spawn, not fork: numba's and BLAS's threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_worker_main, args=(theirs, data), daemon=True)
    with thread_environment(threads):
        process.start()
    theirs.close()
    return _Worker(process, ours)


def _give(worker: _Worker, task: RunTask) -> None:
    worker.task = task
    # A dead worker is noticed when its connection is read: the task is then given to another one.
    with contextlib.suppress(OSError):
        worker.connection.send(task)


def _ready(team: list[_Worker]) -> list[_Worker]:
    ready = multiprocessing.connection.wait([worker.connection for worker in team], timeout=0.2)
    return [worker for worker in team if worker.connection in ready]


def _receive(worker: _Worker, listener: Listener) -> bool:
    """Take one message; False when the worker is gone."""
    try:
        kind, content = worker.connection.recv()
    except (EOFError, OSError):
        worker.process.join(timeout=5)
        return False
    if kind == "progress":
        listener.progress(content)
    elif kind == "warning":
        listener.warn(content)
    elif kind == "finished":
        worker.task = None
        listener.finished(content)
    elif kind == "failed":
        name, worker.task = worker.task.name if worker.task else "", None
        listener.failed(name, content)
    elif kind == "user error":
        worker.task = None
        raise NesiError(content)
    elif kind == "interrupted":
        worker.task = None
    else:
        raise RuntimeError(f"a worker hit an error that is not the user's:\n{content}")
    return True


def _stop_team(team: list[_Worker], listener: Listener) -> None:
    """Ask every worker to write a checkpoint, and wait for those that are at work."""
    for worker in team:
        worker.process.terminate()
    busy = [worker for worker in team if worker.task is not None]
    while busy:
        for worker in _ready(busy):
            # A run that ends just now is kept: its record is worth as much as any other.
            if not _receive(worker, listener):
                worker.task = None
        busy = [worker for worker in busy if worker.task is not None]


def _worker_main(connection: multiprocessing.connection.Connection, data: RunData) -> None:
    stop = StopRequest()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    signal.signal(signal.SIGTERM, lambda number, _frame: setattr(stop, "signal", number))
    parent = os.getppid()
    last_report = 0.0

    def report(progress: Progress) -> None:
        nonlocal last_report
        if os.getppid() != parent:  # the parent was killed: nobody would write our record
            os._exit(1)
        if progress.resumed or time.monotonic() - last_report >= SECONDS_BETWEEN_REPORTS:
            connection.send(("progress", progress))
            last_report = time.monotonic()

    def warn(sentence: str) -> None:
        connection.send(("warning", sentence))

    try:
        data = opened(data)
        while not stop():
            if not connection.poll(0.2):
                if os.getppid() != parent:
                    return
                continue
            task = connection.recv()
            connection.send(_outcome(task, data, report, stop, warn))
    except (EOFError, OSError):
        return


def _outcome(task: RunTask, data: RunData, report: Any, stop: StopRequest, warn: Any) -> tuple[str, Any]:
    try:
        return "finished", train_run(task, data, report, stop, warn)
    except RunInterrupted:
        return "interrupted", None
    except TrainingFailed as error:
        return "failed", str(error)
    except NesiError as error:
        return "user error", str(error)
    except MemoryError:
        return "user error", f"{task.name}: not enough memory; use fewer --workers or a smaller C."
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception:
        return "crashed", traceback.format_exc()
