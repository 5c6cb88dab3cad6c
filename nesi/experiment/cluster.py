"""Execute runs on a Dask cluster: runs are tasks, the data travels to each worker once, records come back at once."""

import contextlib
import logging
import queue
import time
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import nesi
from nesi.errors import NesiError, TrainingFailed
from nesi.experiment.local import LARGEST_NUMBER_OF_ATTEMPTS, Listener, StopRequest, side_by_side
from nesi.experiment.one_run import RunInterrupted, train_run
from nesi.experiment.tasks import Progress, RunData, RunResult, RunTask
from nesi.storage.experiment_directory import ExperimentDirectory

SECONDS_TO_CONNECT = 15
SECONDS_BETWEEN_REPORTS = 1.0


def execute_on_cluster(
    tasks: list[RunTask], data: RunData, listener: Listener, stop: StopRequest, address: str, token: str
) -> None:
    """Send every run to the scheduler at `address`. A killed worker costs one run's time: Dask repeats the run."""
    client = connect(address)
    topic = f"nesi-{uuid.uuid4().hex}"
    arrived: queue.Queue[Any] = queue.Queue()
    waiting: dict[str, tuple[RunTask, Any]] = {}
    attempts: dict[str, int] = {}
    try:
        check_workers(client)
        client.subscribe_topic(topic, lambda event: arrived.put(("progress", event[1])))
        scattered = _scatter(client, data)

        def submit(task: RunTask) -> None:
            future = client.submit(
                _run_on_worker,
                task,
                scattered,
                topic,
                token,
                nesi.__version__,
                pure=False,
                retries=1,
                key=f"{topic}-{uuid.uuid4().hex}",
            )
            waiting[task.name] = (task, future)
            future.add_done_callback(lambda done, name=task.name: arrived.put(("done", (name, done))))

        workers = max(sum(client.nthreads().values()), 1)  # they may come and go
        for task in side_by_side(tasks, workers):
            submit(task)
        while waiting and not stop():
            try:
                kind, content = arrived.get(timeout=0.2)
            except queue.Empty:
                if client.status in ("closed", "newly-created"):
                    raise _lost(address) from None
                continue
            if kind == "progress":
                listener.progress(Progress(**content["progress"]))
                continue
            name, future = content
            if name not in waiting or waiting[name][1] is not future:
                continue
            task = waiting.pop(name)[0]
            if not _deliver(task, future, listener):
                attempts[name] = attempts.get(name, 0) + 1
                if attempts[name] >= LARGEST_NUMBER_OF_ATTEMPTS:
                    raise NesiError(
                        f"{name}: its workers died {attempts[name]} times; see their logs and continue with --resume."
                    )
                listener.warn(f"the worker of {name} was lost; the run is sent to another one.")
                scattered = _scatter(client, data)
                submit(task)
    finally:
        _leave(client, topic, [future for _, future in waiting.values()])


def connect(address: str, patience: float | None = None) -> Any:
    """`patience`: seconds to wait for a scheduler, and for workers, that may be starting again."""
    try:
        from distributed import Client
        from distributed.security import Security
    except ImportError:
        raise NesiError("--scheduler needs Dask; install it with: pip install 'nesi[cluster]'.") from None
    for name in [name for name in logging.root.manager.loggerDict if name.split(".")[0] == "distributed"]:
        logging.getLogger(name).setLevel(logging.CRITICAL)  # our one sentence says it better
    if address.startswith("tls://") and not Security().get_connection_args("client").get("ssl_context"):
        raise NesiError(f"{address} needs certificates, and Dask is told of none; docs/cluster.md shows how.")
    try:
        client = Client(address, timeout=patience or SECONDS_TO_CONNECT, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        raise NesiError(
            f"no Dask scheduler answers at {address!r} ({reason}); check the address, or start one: `dask scheduler`."
        ) from None
    try:
        client.wait_for_workers(1, timeout=patience or SECONDS_TO_CONNECT)
    except (OSError, TimeoutError):
        client.close()
        raise NesiError(
            f"the scheduler at {address} has no workers; start some with `dask worker {address}`."
        ) from None
    return client


def check_workers(client: Any) -> None:
    """Every worker must have this very version; asked in words that a worker without it understands as well."""
    answers = client.run(eval, "__import__('nesi').__version__", on_error="return")
    for worker, answer in sorted(answers.items()):
        if isinstance(answer, ImportError):
            raise NesiError(
                f"the worker at {worker} cannot import nesi ({answer}); install nesi {nesi.__version__} there."
            )
        if answer != nesi.__version__:
            raise _other_version(worker, str(answer), nesi.__version__)


def _other_version(worker: str, theirs: str, ours: str) -> NesiError:
    return NesiError(
        f"the worker at {worker} has nesi {theirs[:80]}, but this is nesi {ours}; install the same version on all."
    )


def _scatter(client: Any, data: RunData) -> Any:
    """Every worker gets one copy; workers that join later take theirs from a neighbour."""
    try:
        client.wait_for_workers(1, timeout=SECONDS_TO_CONNECT)
        return client.scatter(data, broadcast=True, hash=False)
    except (OSError, TimeoutError):
        raise NesiError(
            "the cluster is gone or has no workers left; start it again and continue with --resume."
        ) from None


def _deliver(task: RunTask, future: Any, listener: Listener) -> bool:
    """Hand the result to the listener; False when the run has to be repeated."""
    try:
        result: RunResult = future.result(timeout=60)
    except TrainingFailed as error:
        listener.failed(task.name, str(error))
        return True
    except NesiError:
        raise
    except RunInterrupted:
        return False
    except ImportError as error:  # a worker that has joined later
        raise NesiError(
            f"a worker cannot import what it needs ({error}); install nesi {nesi.__version__} there and continue with "
            "--resume."
        ) from None
    except Exception as error:
        # Lost workers and lost data show up as various errors of Dask; anything else is a bug and stays loud.
        from concurrent.futures import CancelledError

        if type(error).__module__.startswith(("distributed", "asyncio", "concurrent")) or isinstance(
            error, CancelledError | OSError
        ):
            return False
        raise
    listener.finished(result)
    future.release()
    return True


def _leave(client: Any, topic: str, futures: list[Any]) -> None:
    from distributed import Event

    with contextlib.suppress(Exception):  # the cluster may be the very thing that is gone
        if futures:
            Event(topic, client=client).set()
            client.cancel(futures, force=True)
    with contextlib.suppress(Exception):
        client.close(timeout=5)


def _lost(address: str) -> NesiError:
    return NesiError(f"the connection to the scheduler at {address} was lost; continue with --resume.")


def _run_on_worker(task: RunTask, data: RunData, topic: str, token: str, version: str) -> RunResult:
    """Executed by a Dask worker, for somebody who has this version."""
    from distributed import Event, get_worker

    worker = get_worker()
    if version != nesi.__version__:
        raise _other_version(worker.address, nesi.__version__, version)
    last_report = last_question = 0.0
    stopped = False

    def report(progress: Progress) -> None:
        nonlocal last_report
        if progress.resumed or time.monotonic() - last_report >= SECONDS_BETWEEN_REPORTS:
            last_report = time.monotonic()
            with contextlib.suppress(Exception):
                worker.log_event(topic, {"progress": vars(progress)})

    def should_stop() -> bool:
        nonlocal last_question, stopped
        if not stopped and time.monotonic() - last_question >= 2:
            last_question = time.monotonic()
            with contextlib.suppress(Exception):
                stopped = Event(topic).is_set()
        return stopped

    return train_run(_with_reachable_checkpoint(task, token), data, report, should_stop)


def _with_reachable_checkpoint(task: RunTask, token: str) -> RunTask:
    """Checkpoints need the output directory; a worker that does not share its file system works without them."""
    if task.checkpoint is None:
        return task
    with contextlib.suppress(OSError):
        if ExperimentDirectory(Path(task.checkpoint).parent.parent).cluster_token_file.read_text() == token:
            return task
    return replace(task, checkpoint=None)
