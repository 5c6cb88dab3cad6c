"""Helpers for tests that drive the program as a user does: through its command line, in a process of its own."""

import contextlib
import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from nesi.cli import main, run_main

ROOT = Path(__file__).parent.parent
PROGRAM = [sys.executable, str(ROOT / "run_experiment.py")]
HELD_PROGRAM = [sys.executable, str(ROOT / "tests" / "programs" / "held_run.py")]

SMALL: dict[str, Any] = {
    "dataset": "digits",
    "C": 40,
    "A": 200,
    "epsilon_W": 1.0,
    "epsilon_R": 1.0,
    "iterations": 20,
    "networks": ["r", "ff+"],
    "labels": [20],
    "runs": 2,
    "batch_size": 50,
}


def write_params(path: Path, **changes: Any) -> Path:
    path.write_text(yaml.safe_dump({**SMALL, **changes}))
    return path


def nesi(*arguments: object) -> tuple[int, str]:
    """Exit code and all output of `nesi`, without the cost of a new process."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = main([str(argument) for argument in arguments])
    return code, output.getvalue()


def run_here(*arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error, without the cost of a new process."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = run_main([str(argument) for argument in arguments])
    return code, output.getvalue(), errors.getvalue()


def start(*arguments: object, program: Sequence[str] = PROGRAM, **options: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*program, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, **options
    )


def start_held(gate: Path, iteration: int, *arguments: object) -> "subprocess.Popen[str]":
    """A program whose runs wait at `iteration` until the file `gate` exists or they are asked to stop."""
    return start(*arguments, program=HELD_PROGRAM, env=holding(gate, iteration))


def holding(gate: Path, iteration: int) -> dict[str, str]:
    """The environment that `held_run` reads."""
    return {**os.environ, "NESI_TEST_HOLD": str(gate), "NESI_TEST_HOLD_AT": str(iteration)}


def finish(process: "subprocess.Popen[str]", timeout: float | None = 400) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=timeout)
    return process.returncode, output, errors


def sentences(errors: str) -> list[str]:
    """Lines of standard error, without notes that something is compiled or that a training was short."""
    lines = (line for line in errors.splitlines() if not line.startswith("nesi: compiling"))
    return [line for line in lines if "more iterations of the second layer may lower the error" not in line]


def wait_for(condition: Callable[[], Any], process: "subprocess.Popen[str] | None" = None, timeout: float = 400) -> Any:
    """Poll until the condition holds; gives up early when the process has ended."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        if value := condition():
            return value
        if process is not None and process.poll() is not None:
            return None
        time.sleep(0.01)
    raise AssertionError("nothing happened in time")


def records(
    directory: Path, forget: Sequence[str] = ("seconds",), torn: bool = False
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The records by run, without what may differ between two executions; the last line may be `torn` by a kill."""
    found = {}
    path = directory / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    for line in lines[:-1] if torn and lines and not lines[-1].endswith("\n") else lines:
        record = json.loads(line)
        del record["checksum"]  # it includes what may differ
        key = (record["network"], record["labels"], record["run"])
        assert key not in found, f"{key} was recorded twice"
        found[key] = {name: value for name, value in record.items() if name not in forget}
    return found


def checkpoints(directory: Path) -> list[Path]:
    return sorted((directory / "checkpoints").glob("*.npz"))


def children(pid: int) -> list[int]:
    """Processes started by `pid` that run a worker."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                stat = Path(f"/proc/{entry}/stat").read_text().rsplit(")", 1)[1].split()
                command = Path(f"/proc/{entry}/cmdline").read_bytes()
                if int(stat[1]) == pid and b"spawn_main" in command:
                    found.append(int(entry))
    return found
