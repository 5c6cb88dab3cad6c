"""A Dask scheduler and workers on this machine, for tests: all of these tests kill some of it, so each has its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class DaskCluster:
    """`preload`: a program of `tests/programs` that every worker starts with; `environment`: for all processes."""

    def __init__(self, folder: Path, environment: Mapping[str, str] | None = None, preload: Path | None = None) -> None:
        self.folder, self.address = folder, f"tcp://127.0.0.1:{free_port()}"
        self._environment = dict(os.environ if environment is None else environment)
        self._preload = () if preload is None else ("--preload", str(preload))
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, workers: int) -> None:
        """A scheduler, whose number is in `scheduler.pid`, and this number of workers."""
        self.scheduler = self._run("dask_scheduler", "--host", self.address, "--no-dashboard", "--no-show")
        (self.folder / "scheduler.pid").write_text(str(self.scheduler.pid))
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_worker(self, **environment: str) -> subprocess.Popen[bytes]:
        """Without a nanny, which would revive it."""
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(self.folder))
        return self._run("dask_worker", self.address, *options, *self._preload, **environment)

    def wait_for(self, workers: int) -> None:
        import distributed  # an extra, without which these tests are skipped

        with distributed.Client(self.address, timeout=120, set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=120)  # a busy machine takes its time to start them

    def stop(self) -> None:
        for process in reversed(self._processes):
            process.kill()
            process.wait()
        self._processes = []

    def _run(self, program: str, *options: str, **environment: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
        variables = {**self._environment, **environment}
        with open(self.folder / "dask.log", "ab") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder, env=variables))
        return self._processes[-1]
