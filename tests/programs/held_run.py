"""run_experiment.py whose runs wait for the test, so that a test never has to hope that a run is still under way.

NESI_TEST_HOLD names a file, and NESI_TEST_HOLD_AT an iteration: from that iteration on a run waits until the file
exists or until it is asked to stop. Workers start from this module as well, and a Dask worker can preload it.
"""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nesi.experiment.cluster
import nesi.experiment.local
from nesi.cli import run_main
from nesi.experiment.one_run import train_run
from nesi.experiment.tasks import Progress


def train_held_run(
    task: Any, data: Any, report: Callable[[Any], None], should_stop: Callable[[], bool], *more: Any
) -> Any:
    gate, held_at, reached = Path(os.environ["NESI_TEST_HOLD"]), int(os.environ["NESI_TEST_HOLD_AT"]), 0

    def note(progress: Any) -> None:
        nonlocal reached
        reached = progress.iteration
        report(progress)

    def wait_and_ask() -> bool:
        while reached >= held_at and not gate.exists() and not should_stop():
            # A worker looks for its parent whenever it reports.
            report(Progress(task.name, reached, task.total_iterations, None, None))
            time.sleep(0.01)
        return should_stop()

    return train_run(task, data, note, wait_and_ask, *more)


nesi.experiment.local.train_run = nesi.experiment.cluster.train_run = train_held_run

if __name__ == "__main__":
    sys.exit(run_main())
