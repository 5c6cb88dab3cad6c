"""A real Dask scheduler and two real workers on this machine, one of which is killed."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import ROOT, checkpoints, finish, holding, records, run_here, sentences, start, wait_for, write_params
from dask_cluster import DaskCluster, free_port

import nesi
from nesi.errors import NesiError
from nesi.experiment.cluster import _run_on_worker

pytest.importorskip("distributed", reason="Dask is an extra: pip install 'nesi[cluster]'")

LONG = {"iterations": 150, "C": 60, "networks": ["r", "ff+"], "runs": 2, "checkpoint_seconds": 0.0}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[DaskCluster]:
    """With two workers, whose runs wait at iteration 20 until the file `gate` exists."""
    held_run = ROOT / "tests" / "programs" / "held_run.py"
    started = DaskCluster(tmp_path, holding(tmp_path / "gate", 20), preload=held_run)
    try:
        started.start(2)
        started.wait_for(2)
        yield started
    finally:
        started.stop()


def test_a_killed_worker_costs_time_and_no_record(cluster: DaskCluster, tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", **LONG)
    out = tmp_path / "out"
    assert run_here(params, "--out", tmp_path / "alone", "--quiet")[0] == 0  # compiles, too: workers find it done
    process = start(params, "--out", out, "--scheduler", cluster.address)
    assert wait_for(lambda: len(checkpoints(out)) == 2, process)
    cluster.workers[0].kill()
    (tmp_path / "gate").touch()
    code, output, errors = finish(process)
    assert code == 0, errors
    assert "[4/4]" in output
    assert records(out) == records(tmp_path / "alone")
    assert "Traceback" not in errors


def test_a_lost_scheduler_is_one_sentence_and_nothing_is_lost(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nesi.experiment.cluster.SECONDS_TO_CONNECT", 4)
    params = write_params(tmp_path / "p.yaml", **LONG)

    def kill_scheduler() -> None:
        wait_for(lambda: checkpoints(tmp_path / "out"))
        cluster.scheduler.kill()

    threading.Thread(target=kill_scheduler, daemon=True).start()
    options = ("--out", tmp_path / "out", "--scheduler", cluster.address)
    code, _, errors = run_here(params, *options)
    assert code == 2
    assert "continue with --resume" in sentences(errors)[-1]
    assert "Traceback" not in errors
    assert checkpoints(tmp_path / "out")


def test_workers_without_nesi_or_with_another_version_are_refused(tmp_path: Path) -> None:
    params, cluster = write_params(tmp_path / "p.yaml"), DaskCluster(tmp_path)
    cases = {
        "raise ModuleNotFoundError(\"No module named 'nesi'\")": "cannot import nesi (No module named 'nesi'); install",
        "__version__ = '0.0.1'": f"has nesi 0.0.1, but this is nesi {nesi.__version__}; install the same version",
    }
    try:
        cluster.start(0)
        for number, (content, expected) in enumerate(cases.items()):
            other = tmp_path / str(number) / "nesi"
            other.mkdir(parents=True)
            (other / "__init__.py").write_text(content)
            worker = cluster.start_worker(PYTHONPATH=str(other.parent))
            code, _, errors = run_here(params, "--out", tmp_path / "new" / "out", "--scheduler", cluster.address)
            worker.kill()
            worker.wait()
            assert code == 2
            (sentence,) = sentences(errors)
            assert "the worker at tcp://127.0.0.1:" in sentence
            assert expected in sentence
            assert not (tmp_path / "new").exists()
    finally:
        cluster.stop()


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
