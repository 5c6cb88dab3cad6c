"""Kill an experiment at random moments, continue it, and compare every file with one that was left alone.

    python tests/fuzz/kills.py --kills 100 [--seed 0] [--seconds 8]

An experiment is killed again and again until it is done; then the next one begins in a new directory.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))
from command_line import finish, records, start, write_params

LONG: dict[str, Any] = {"iterations": 60, "C": 60, "networks": ["r", "ff+"], "runs": 2, "checkpoint_seconds": 0.0}


def files(directory: Path) -> dict[str, dict[str, bytes]]:
    """The arrays of a directory bit for bit, without the seconds that things took."""
    found = {}
    for path in sorted(directory.rglob("*.npz")):
        with np.load(path) as arrays:
            found[str(path.relative_to(directory))] = {
                name: arrays[name].tobytes() for name in arrays.files if name not in ("seconds", "header")
            }
    return found


def kill_and_continue(params: Path, out: Path, chance: random.Random, seconds: float, most: int) -> tuple[int, bool]:
    """How often it was killed, and whether it is done."""
    kills = 0
    while kills < most:
        before = records(out)
        process = start(params, "--out", out, "--resume", "--quiet")
        deadline = time.monotonic() + chance.uniform(0, seconds)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.005)
        if process.poll() is not None:
            code, _, errors = finish(process)
            assert code == 0, errors
            return kills, True
        process.kill()
        process.communicate()
        kills += 1
        assert before.items() <= records(out).items(), "a finished run was lost"
    return kills, False


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=8.0, help="kill within so many seconds after each start")
    options = parser.parse_args(arguments)
    chance, kills, compared = random.Random(options.seed), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        params = write_params(Path(folder) / "p.yaml", **LONG)
        whole = Path(folder) / "whole"
        code, _, errors = finish(start(params, "--out", whole, "--quiet"))
        assert code == 0, errors
        expected, expected_files = records(whole), files(whole)
        number = 0
        while kills < options.kills:
            number += 1
            out = Path(folder) / f"out{number}"
            done, finished = kill_and_continue(params, out, chance, options.seconds, options.kills - kills)
            kills += done
            if not finished:
                code, _, errors = finish(start(params, "--out", out, "--resume", "--quiet"))
                assert code == 0, errors
            assert records(out) == expected, "records differ"
            assert files(out) == expected_files, "files differ"
            assert not list(out.rglob("*.part")), "half-written files were left"
            compared += 1
            print(f"{kills} kills, {compared} experiments compared", file=sys.stderr, flush=True)
    print(
        f"seed {options.seed}: {kills} kills, {compared} experiments; {compared * len(expected)} records and ", end=""
    )
    print(f"{compared * len(expected_files)} files compared: nothing lost, doubled or different")
    return 0


if __name__ == "__main__":
    sys.exit(main())
