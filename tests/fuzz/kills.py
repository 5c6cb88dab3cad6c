"""Kill an experiment at random moments, continue it, and compare every file with one that was left alone.

    python tests/fuzz/kills.py --kills 100 [--seed 0] [--experiments 8]

Each kill wishes for a stage: during start-up after a random time, in training after a random number of iterations of a
layer, or in the middle of writing a file. What it hits is read afterwards from what the program noted, and counted. No
kill depends on how fast the machine is.
"""

from __future__ import annotations

import argparse
import mmap
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parent.parent))
sys.path.append(str(Path(__file__).parent.parent / "programs"))
sys.path.append(str(Path(__file__).parents[2]))
from command_line import ROOT, finish, records, start, write_params
from watched_note import SIZE, STAGES, read_note

#: What takes long to import is there before a process starts; the program itself is not.
PRELOADED = ["numba", "pytensor.tensor", "sklearn.datasets", "scipy.sparse", "pydantic", "matplotlib.pyplot"]
LONG: dict[str, Any] = {"iterations": 60, "C": 60, "networks": ["r", "ff+"], "runs": 2, "checkpoint_seconds": 0.0}
LONG |= {"greedy": True, "iterations_R": 60}
WHILE_WRITING = "while writing"
_WISHES = (
    ["start-up"] * 2 + ["first layer", "second layer", "both layers"] * 2 + ["between runs", "checkpoint", "result"]
)
_MOST_ITERATIONS = 40  # of its stage that a kill waits for; a few such waits make a whole experiment
_MOST_STEPS = {"checkpoint": 60, "result": 20}
#: Files that hold nothing but what follows from the parameters.
_SAME = ("params.yaml", "dataset.json", "predictions.csv")


def files(directory: Path) -> dict[str, Any]:
    """The arrays and tables of a directory bit for bit, without the seconds that things took; of the rest the names."""
    found: dict[str, Any] = {}
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        name = str(path.relative_to(directory))
        found[name] = path.read_bytes() if path.name in _SAME else None
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                kept = [name for name in arrays.files if name not in ("seconds", "header")]
                found[name] = {name: (arrays[name].dtype.str, arrays[name].tobytes()) for name in kept}
    return found


class Killer:
    """Starts the program, and kills it."""

    def __init__(self, folder: Path, params: Path, chance: random.Random, start_up: float) -> None:
        self._params, self._chance, self._start_up = params, chance, start_up
        self._note, self._errors = folder / "note", folder / "errors"
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self.hit: Counter[str] = Counter()

    def run(self, out: Path, kills: bool = True) -> bool:
        """Continue the experiment; whether it was killed before its end."""
        self._note.write_bytes(bytes(SIZE))
        wish = self._chance.choice(_WISHES) if kills else ""
        kill_at = f"{wish} {self._chance.randint(1, _MOST_STEPS[wish])}" if wish in _MOST_STEPS else ""
        arguments = [str(self._params), "--out", str(out), "--resume", "--quiet"]
        process = self._context.Process(target=_run, args=(arguments, str(self._note), kill_at, str(self._errors)))
        process.start()
        with self._note.open("r+b") as file, mmap.mmap(file.fileno(), SIZE) as shared:
            self._wait_for(wish, process, shared)
            if kills:
                process.kill()  # nothing happens if it is dead
            process.join()
            stage, writing, _ = read_note(shared)
        assert process.exitcode in (0, -9), self._errors.read_text()
        if process.exitcode == -9:
            self.hit[WHILE_WRITING if writing else STAGES[stage]] += 1
        return process.exitcode != 0

    def _wait_for(self, wish: str, process: Any, shared: mmap.mmap) -> None:
        if not wish:
            return
        if wish == "start-up":
            deadline = time.monotonic() + self._chance.uniform(0, self._start_up)
            while time.monotonic() < deadline and process.is_alive():
                time.sleep(0.01)
            return
        count = self._chance.randint(1, 2 if wish == "between runs" else _MOST_ITERATIONS)
        latest, seen, others = (-1, -1), 0, 0
        while process.is_alive():
            stage, _, number = read_note(shared)
            if wish in STAGES and (stage, number) != latest:
                latest = (stage, number)
                seen, others = (seen + 1, others) if stage == STAGES.index(wish) else (seen, others + 1)
            if seen >= count or others >= 4 * _MOST_ITERATIONS:  # the stage may be over for good
                time.sleep(self._chance.uniform(0, 0.01))
                return
            time.sleep(0.0005)


def _run(*arguments: Any) -> None:
    import watched_run

    watched_run.run(*arguments)


def uninterrupted(params: Path, out: Path) -> None:
    code, _, errors = finish(start(params, "--out", out, "--resume", "--quiet"), timeout=None)
    assert code == 0, errors


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--experiments", type=int, default=8, help="the kills are shared out among these")
    options = parser.parse_args(arguments)
    os.environ["PYTHONPATH"] = str(ROOT)  # the code beside this file, even if another copy is installed
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        params = write_params(place / "p.yaml", **LONG)
        brief = write_params(place / "brief.yaml", **{**LONG, "iterations": 2, "iterations_R": 2})
        uninterrupted(brief, place / "compiled")  # whatever is compiled comes from the cache from now on
        uninterrupted(params, place / "whole")
        chance, began = random.Random(options.seed), time.monotonic()
        Killer(place, brief, chance, 0.0).run(place / "brief", kills=False)
        killer = Killer(place, params, chance, (time.monotonic() - began) / 2)
        expected, expected_files = records(place / "whole"), files(place / "whole")
        kills = compared = 0
        while kills < options.kills or compared < options.experiments:
            out = place / f"out{compared}"
            share = -(-(options.kills - kills) // max(options.experiments - compared, 1))
            for _ in range(share):
                before = records(out, torn=True)
                if not killer.run(out):
                    break
                kills += 1
                assert before.items() <= records(out, torn=True).items(), "a finished run was lost"
            killer.run(out, kills=False)
            assert records(out) == expected, "records differ"
            found = files(out)
            differing = [
                name for name in {*found, *expected_files} if found.get(name, "") != expected_files.get(name, "")
            ]
            assert not differing, f"files differ: {', '.join(sorted(differing))}"
            compared += 1
            print(f"{kills} kills, {compared} experiments compared; {dict(killer.hit)}", file=sys.stderr, flush=True)
    print("| stage | kills |\n|---|---|")
    for stage in (*STAGES, WHILE_WRITING):
        print(f"| {stage} | {killer.hit[stage]} |")
    print(
        f"\nseed {options.seed}: {kills} kills, {compared} experiments; {compared * len(expected)} records and "
        f"{compared * len(expected_files)} files compared: nothing lost, doubled or different"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
