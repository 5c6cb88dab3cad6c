"""Interrupted at any moment and continued: nothing is lost, nothing repeated, and the weights agree bit for bit."""

import os
import random
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest
from command_line import (
    checkpoints,
    children,
    finish,
    records,
    run_here,
    sentences,
    start,
    start_held,
    wait_for,
    write_params,
)

# A checkpoint after every iteration, so that every kill meets one being written.
LONG = {"iterations": 150, "C": 60, "networks": ["r", "r+"], "runs": 1, "checkpoint_seconds": 0.0, "stopping": True}


@pytest.fixture(scope="module")
def params(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_params(tmp_path_factory.mktemp("params") / "long.yaml", **LONG)


@pytest.fixture(scope="module")
def uninterrupted(params: Path) -> dict:
    code, _, errors = run_here(params, "--out", params.parent / "whole", "--set", "checkpoint_seconds=1000", "--quiet")
    assert (code, sentences(errors)) == (0, [])
    return records(params.parent / "whole")


def test_kill_9_at_random_moments(params: Path, uninterrupted: dict, tmp_path: Path) -> None:
    out = tmp_path / "out"
    chance = random.Random(os.environ.get("NESI_TEST_SEED", "kill"))
    for held_at in (12, 24, 36):
        records_before = records(out)
        process = start_held(tmp_path / "never", held_at, params, "--out", out, "--resume")
        seen = {path: path.stat().st_mtime_ns for path in checkpoints(out)}
        wait_for(lambda seen=seen: {p: p.stat().st_mtime_ns for p in checkpoints(out)} != seen, process)
        time.sleep(chance.uniform(0, 0.1))
        assert process.poll() is None, "a run that was held has ended"
        process.kill()
        process.communicate()
        assert records_before.items() <= records(out).items(), "a finished run was lost"
    code, _, errors = run_here(params, "--out", out, "--resume")
    assert (code, sentences(errors)) == (0, [])
    assert records(out) == uninterrupted
    assert checkpoints(out) == []


def test_a_kill_before_the_first_iteration_is_harmless(params: Path, uninterrupted: dict, tmp_path: Path) -> None:
    process = start_held(tmp_path / "never", 1, params, "--out", tmp_path / "out")
    assert wait_for(lambda: (tmp_path / "out").exists(), process)  # and perhaps a little more by now
    process.kill()
    process.communicate()
    assert run_here(params, "--out", tmp_path / "out", "--resume", "--quiet")[0] == 0
    assert records(tmp_path / "out") == uninterrupted


@pytest.mark.parametrize(("number", "workers"), [(signal.SIGINT, []), (signal.SIGTERM, ["--workers", "2"])])
def test_a_signal_stops_with_a_checkpoint(
    params: Path, uninterrupted: dict, tmp_path: Path, number: int, workers: list[str]
) -> None:
    out = tmp_path / "out"
    process = start_held(tmp_path / "never", 20, params, "--out", out, *workers)
    assert wait_for(lambda: checkpoints(out), process)
    process.send_signal(number)
    code, _, errors = finish(process)
    assert code == 128 + number
    (sentence,) = sentences(errors)
    assert sentence.startswith("stopped with ")
    assert checkpoints(out), "no checkpoint was left"
    command = sentence.split("continue with: python run_experiment.py ")[1].split()
    code, _, errors = run_here(*command[:4], "--quiet")
    assert (code, sentences(errors)) == (0, [])
    assert records(out) == uninterrupted


def test_a_second_invocation_is_refused(params: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start_held(tmp_path / "never", 20, params, "--out", out)
    try:
        assert wait_for(lambda: checkpoints(out), process)
        before = (out / "params.yaml").read_bytes()
        for options in ([], ["--resume"]):
            code, _, errors = run_here(params, "--out", out, *options)
            assert code == 2
            assert "in use by another run_experiment.py" in errors
        assert process.poll() is None
        assert (out / "params.yaml").read_bytes() == before
    finally:
        process.kill()
        process.communicate()


def test_a_disk_that_takes_no_more(params: Path, uninterrupted: dict, tmp_path: Path) -> None:
    """A limit on the size of files makes the kernel refuse writes as a full disk does."""
    out = tmp_path / "out"
    limited = start(
        params, "--out", out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (18_000, 18_000))
    )
    code, _, errors = finish(limited)
    assert code == 2
    (sentence,) = sentences(errors)
    assert sentence.startswith("error: cannot write ")
    assert sentence.endswith("continue with --resume.")
    assert run_here(params, "--out", out, "--resume", "--quiet")[0] == 0
    assert records(out) == uninterrupted
    assert not list(out.rglob("*.part")), "half-written files were left"


def test_a_full_disk(params: Path, uninterrupted: dict, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=60k", "tmpfs", disk], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        code, _, errors = finish(start(params, "--out", disk / "out"))
        assert code == 2
        (sentence,) = sentences(errors)
        assert "No space left on device; make room and continue with --resume" in sentence
        subprocess.run(["mount", "-o", "remount,size=100M", disk], check=True)
        assert run_here(params, "--out", disk / "out", "--resume", "--quiet")[0] == 0
        assert records(disk / "out") == uninterrupted
    finally:
        subprocess.run(["umount", "-l", disk], check=False)


def test_records_do_not_depend_on_workers_even_if_one_is_killed(
    params: Path, uninterrupted: dict, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = start_held(tmp_path / "gate", 20, params, "--out", out, "--workers", "2")
    assert wait_for(lambda: len(checkpoints(out)) == 2, process)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)
    (tmp_path / "gate").touch()
    code, _, errors = finish(process)
    assert code == 0
    (warning,) = sentences(errors)
    assert "died; the run continues on a new one" in warning
    assert records(out) == uninterrupted


def test_workers_end_when_their_parent_is_killed(params: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    process = start_held(tmp_path / "never", 20, params, "--out", out, "--workers", "2")
    assert wait_for(lambda: len(checkpoints(out)) == 2, process)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    assert wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
