"""A real Dask scheduler and two real workers on this machine, one of which is killed."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT, checkpoints, finish, holding, records, run_here, sentences, start, wait_for, write_params

import nesi
from nesi.errors import NesiError
from nesi.experiment.cluster import _run_on_worker

distributed = pytest.importorskip("distributed", reason="Dask is an extra: pip install 'nesi[cluster]'")

LONG = {"iterations": 150, "C": 60, "networks": ["r", "ff+"], "runs": 2, "checkpoint_seconds": 0.0}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


WORKER = ("--nthreads", "1", "--no-nanny", "--no-dashboard")


def dask(folder: Path, program: str, *options: str, path: Path = ROOT) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
    with open(folder / "dask.log", "ab") as log:
        environment = {**os.environ, "PYTHONPATH": str(path)}
        return subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list["subprocess.Popen[bytes]"]]]:
    """Address of a scheduler with two workers, and the workers' processes (without a nanny that would revive them).

    Their runs wait at iteration 20 until the file `gate` exists.
    """
    address = f"tcp://127.0.0.1:{free_port()}"
    started: list[subprocess.Popen[bytes]] = []

    def run(program: str, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", f"distributed.cli.{program}", *options]
        with open(tmp_path / f"dask{len(started)}.log", "wb") as log:
            environment = holding(tmp_path / "gate", 20)
            started.append(subprocess.Popen(command, stdout=log, stderr=log, cwd=tmp_path, env=environment))
        return started[-1]

    scheduler = run("dask_scheduler", "--host", address, "--no-dashboard", "--no-show")
    (tmp_path / "scheduler.pid").write_text(str(scheduler.pid))
    options = (*WORKER, "--local-directory", str(tmp_path))
    options += ("--preload", str(ROOT / "tests" / "programs" / "held_run.py"))
    workers = [run("dask_worker", address, *options) for _ in range(2)]
    try:
        with distributed.Client(address, timeout=120, set_as_default=False) as client:
            client.wait_for_workers(2, timeout=120)  # a busy machine takes its time to start them
        yield address, workers
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def test_a_killed_worker_costs_time_and_no_record(
    cluster: tuple[str, list["subprocess.Popen[bytes]"]], tmp_path: Path
) -> None:
    address, workers = cluster
    params = write_params(tmp_path / "p.yaml", **LONG)
    out = tmp_path / "out"
    assert run_here(params, "--out", tmp_path / "alone", "--quiet")[0] == 0  # compiles, too: workers find it done
    process = start(params, "--out", out, "--scheduler", address)
    assert wait_for(lambda: len(checkpoints(out)) == 2, process)
    os.kill(workers[0].pid, signal.SIGKILL)
    (tmp_path / "gate").touch()
    code, output, errors = finish(process)
    assert code == 0, errors
    assert "[4/4]" in output
    assert records(out) == records(tmp_path / "alone")
    assert "Traceback" not in errors


def test_a_lost_scheduler_is_one_sentence_and_nothing_is_lost(
    cluster: tuple[str, list["subprocess.Popen[bytes]"]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nesi.experiment.cluster.SECONDS_TO_CONNECT", 4)
    params = write_params(tmp_path / "p.yaml", **LONG)
    scheduler = int((tmp_path / "scheduler.pid").read_text())

    def kill_scheduler() -> None:
        wait_for(lambda: checkpoints(tmp_path / "out"))
        os.kill(scheduler, signal.SIGKILL)

    threading.Thread(target=kill_scheduler, daemon=True).start()
    options = ("--out", tmp_path / "out", "--scheduler", cluster[0])
    code, _, errors = run_here(params, *options)
    assert code == 2
    assert "continue with --resume" in sentences(errors)[-1]
    assert "Traceback" not in errors
    assert checkpoints(tmp_path / "out")


def test_workers_without_nesi_or_with_another_version_are_refused(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    params = write_params(tmp_path / "p.yaml")
    started = [dask(tmp_path, "dask_scheduler", "--host", address, "--no-dashboard", "--no-show")]
    cases = {
        "raise ModuleNotFoundError(\"No module named 'nesi'\")": "cannot import nesi (No module named 'nesi'); install",
        "__version__ = '0.0.1'": f"has nesi 0.0.1, but this is nesi {nesi.__version__}; install the same version",
    }
    try:
        for number, (content, expected) in enumerate(cases.items()):
            other = tmp_path / str(number) / "nesi"
            other.mkdir(parents=True)
            (other / "__init__.py").write_text(content)
            started.append(dask(other.parent, "dask_worker", address, *WORKER, path=other.parent))
            code, _, errors = run_here(params, "--out", tmp_path / "new" / "out", "--scheduler", address)
            started[-1].kill()
            started[-1].wait()
            assert code == 2
            (sentence,) = sentences(errors)
            assert "the worker at tcp://127.0.0.1:" in sentence
            assert expected in sentence
            assert not (tmp_path / "new").exists()
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()


def test_a_worker_that_joins_later_checks_the_version_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("distributed.get_worker", lambda: SimpleNamespace(address="tcp://later:1"))
    with pytest.raises(NesiError, match=r"the worker at tcp://later:1 has nesi .*, but this is nesi 9\.9"):
        _run_on_worker(None, None, "topic", "token", "9.9")  # type: ignore[arg-type]


def test_an_unreachable_scheduler_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nesi.experiment.cluster.SECONDS_TO_CONNECT", 1)
    params = write_params(tmp_path / "p.yaml")
    for address in (f"tcp://127.0.0.1:{free_port()}", "nonsense://x", "127.0.0.1:notaport"):
        code, _, errors = run_here(params, "--out", tmp_path / "out", "--scheduler", address)
        assert code == 2
        assert not (tmp_path / "out").exists()
        (sentence,) = sentences(errors)
        assert f"no Dask scheduler answers at '{address}'" in sentence


def test_an_address_with_tls_needs_certificates(tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml")
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--scheduler", "tls://127.0.0.1:1")
    assert code == 2
    assert "tls://127.0.0.1:1 needs certificates" in errors


def test_without_dask_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    params = write_params(tmp_path / "p.yaml")
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--scheduler", "tcp://127.0.0.1:1")
    assert code == 2
    assert "pip install 'nesi[cluster]'" in errors
