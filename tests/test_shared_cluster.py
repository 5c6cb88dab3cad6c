"""One network on a real Dask cluster on this machine: slow workers, killed workers, a scheduler that starts again."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ROOT, records, run_here, write_params
from dask_cluster import DaskCluster

distributed = pytest.importorskip("distributed", reason="Dask is an extra: pip install 'nesi[cluster]'")

SETTINGS = {
    "distribute": "data", "parts": 3, "networks": ["r+"], "runs": 1, "C": 20, "greedy": True, "iterations": 3,
    "threads": 1, "inference": "truncated", "dtype": "float64", "batch_size": 100, "checkpoint_seconds": 0.0,
    "truncated": {"active": 3, "neighbours": 2, "leaders": 1, "strangers": 1},
}  # fmt: skip


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All parts in one process."""
    folder = tmp_path_factory.mktemp("alone")
    code, _, errors = run_here(write_params(folder / "p.yaml", **SETTINGS), "--out", folder / "out", "--quiet")
    assert code == 0, errors
    return folder / "out"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    folder, trouble = tmp_path_factory.mktemp("cluster"), ROOT / "tests" / "programs" / "troubled_worker.py"
    started = DaskCluster(folder, {**os.environ, "NESI_TEST_TROUBLE": str(folder)}, preload=trouble)
    try:
        started.start(3)
        started.wait_for(3)
        yield started
    finally:
        started.stop()


def same_record(one: Path, other: Path) -> None:
    """Bit for bit: records have a checksum of the weights. Traffic and seconds differ."""
    forget = ("seconds", "resolved")
    assert records(one, forget) == records(other, forget)


def test_a_worker_that_is_killed_in_a_round_changes_no_bit(cluster: DaskCluster, alone: Path, tmp_path: Path) -> None:
    """While another one is slow."""
    (cluster.folder / "slow").touch()
    (cluster.folder / "worker").write_text("7")
    params = write_params(tmp_path / "p.yaml", **SETTINGS)
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--scheduler", cluster.address)
    (cluster.folder / "slow").unlink()
    assert code == 0, errors
    assert not (cluster.folder / "worker").exists()
    assert "a worker of r+-L20-run1 was lost; training goes on from the last checkpoint" in errors
    assert "Traceback" not in errors
    same_record(tmp_path / "out", alone)
    (record,) = records(tmp_path / "out").values()
    traffic = record["resolved"]["distribute"]
    assert (traffic["parts"], traffic["workers"]) == (3, 2)
    assert traffic["bytes_per_round"] > 0

    def members_kept() -> int:  # a worker outlives its teams
        import gc

        from nesi.experiment.dask_team import MemberActor

        gc.collect()
        return sum(isinstance(kept, MemberActor) for kept in gc.get_objects())

    with distributed.Client(cluster.address, set_as_default=False) as client:
        assert set(client.run(members_kept).values()) == {0}


def test_training_goes_on_when_the_scheduler_has_started_again(
    cluster: DaskCluster, alone: Path, tmp_path: Path
) -> None:
    def start_again() -> None:
        cluster.scheduler.wait()
        cluster.stop()
        cluster.start(2)

    helper = threading.Thread(target=start_again, daemon=True)
    helper.start()
    (cluster.folder / "scheduler").write_text("5")
    params = write_params(tmp_path / "p.yaml", **SETTINGS)
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--scheduler", cluster.address)
    helper.join()
    assert code == 0, errors
    assert "training goes on from the last checkpoint" in errors
    assert "Traceback" not in errors
    same_record(tmp_path / "out", alone)


def test_what_distributed_data_cannot_do_is_said_beforehand(tmp_path: Path) -> None:
    for change, expected in (
        ({"minibatch_rule": "summed"}, "distribute is 'data', which needs minibatch_rule: sequential, but"),
        (
            {"backend": "c", "inference": "exact"},
            "which needs backend: numba, but backend is 'c'",
        ),
        ({"spread": "points"}, "distribute is 'data', which needs spread: none, but spread is 'points'"),
        ({"distribute": "runs"}, "parts is 3, which is for distribute: data; leave it out"),
    ):
        params = write_params(tmp_path / "p.yaml", **(SETTINGS | change))
        code, _, errors = run_here(params, "--out", tmp_path / "out")
        assert code == 2
        assert expected in errors
