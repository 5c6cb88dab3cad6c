"""Time and memory of points on disk, from 60,000 to 4 million, and two workers against one.

    python benchmarks/deformed_digits.py FOLDER --points 4000000      # once: 3.2 GB
    python benchmarks/scale.py FOLDER

One run, side by side: for every number of points and units a process of its own makes two passes (ff, truncated
posteriors, the first candidates by a walk). `grows` is what memory grows by per point, from the smallest to the largest
data; peaks are those of the process beyond what it had after compiling, with a few points. Then one network on 600,000
points is trained by one worker with one thread, and by two. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from data_tools.rows_on_disk import MappedFile, RowsOnDisk
from nesi.threads import limited_threads
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

SMALL = 3000  # points, to compile with


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int, nargs="+", default=[60_000, 600_000, 4_000_000])
    parser.add_argument("--units", type=int, nargs="+", default=[10_000, 50_000])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--shared", type=int, default=600_000, help="points for two workers against one; 0: leave out")
    parser.add_argument("--one", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        with limited_threads(given.threads):
            print(json.dumps(measured(given.folder, *given.one)))
        return
    for units in given.units:
        rows = [in_a_process(given, points, units) for points in given.points]
        for row in rows:
            print(
                f"C = {units}, {row['points']} points ({row['bytes'] / 1e6:.0f} MB): first pass "
                f"{row['seconds'][0]:.1f} s, next {row['seconds'][1]:.1f} s ({row['per_point']:.2f} us per point), "
                f"peak {row['peak'] / 1e6:.0f} MB",
                flush=True,
            )
        first, last = rows[0], rows[-1]
        grows = (last["peak"] - first["peak"]) / max(last["points"] - first["points"], 1)
        times = [row["per_point"] for row in rows]
        print(
            f"C = {units}: memory grows by {grows:.0f} bytes per point; "
            f"slowest / fastest time per point {max(times) / min(times):.2f}",
            flush=True,
        )
    if given.shared:
        shared(given.folder, given.shared, given.units[0])


def in_a_process(given: argparse.Namespace, points: int, units: int) -> dict[str, Any]:
    options = ["--threads", str(given.threads), "--one", str(points), str(units)]
    command = [sys.executable, __file__, str(given.folder), *options]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    row: dict[str, Any] = json.loads(answer)
    row["per_point"] = row["seconds"][1] / points * 1e6
    return row


def settings_of(units: int) -> TrainingSettings:
    return TrainingSettings(
        network="ff", C=units, A=900, epsilon_W=0.2, inference="truncated", truncated={"start": "walk"}
    )


def on_disk(folder: Path, points: int) -> RowsOnDisk:
    """The first points; as many files as hold them."""
    shards, there = [], 0
    for path in sorted(folder.glob("digits-????.npy")):
        if there < points:
            shards.append(MappedFile(path))
            there += shards[-1].shape[0]
    if there < points:
        raise SystemExit(f"{folder} holds {there} points, but {points} are asked for: see --help.")
    X = RowsOnDisk(shards)
    return X if there == points else X.selected(slice(0, points))


def new_trainer(X: RowsOnDisk, units: int) -> Trainer:
    return Trainer(settings_of(units), X, np.full(len(X), -1), 10, np.random.default_rng(1))


def measured(folder: Path, points: int, units: int) -> dict[str, Any]:
    X = on_disk(folder, points)
    new_trainer(X.selected(slice(0, SMALL)), units).run_iteration()
    before = peak()
    trainer = new_trainer(X, units)
    seconds = [trainer.run_iteration().seconds for _ in range(2)]
    return {"points": points, "bytes": X.nnz, "seconds": seconds, "peak": peak() - before}


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def shared(folder: Path, points: int, units: int) -> None:
    from nesi.experiment.dask_team import LocalWorkers
    from nesi.training.shared import SharedTrainer

    seconds = {}
    for workers in (1, 2):
        local = LocalWorkers(workers, threads=1)
        try:
            with local.team() as team:
                labels, rng = np.full(points, -1), np.random.default_rng(1)
                X = on_disk(folder, points)
                trainer = SharedTrainer(settings_of(units), X, labels, 10, rng, team=team, parts=2)
                trainer.run_iteration()  # with the first candidates, and compiling
                started = time.perf_counter()
                trainer.run_iteration()
                seconds[workers] = time.perf_counter() - started
                sent = trainer.account()["distribute"]["bytes_per_round"] / 1e6
                print(
                    f"C = {units}, {points} points, {workers} worker{'s'[: workers - 1]}: {seconds[workers]:.1f} s per "
                    f"pass, batches of {trainer.batch_size} per part, {sent:.0f} MB between workers per round",
                    flush=True,
                )
        finally:
            local.close()
    print(f"two workers: {seconds[1] / seconds[2]:.2f} times as fast as one", flush=True)


if __name__ == "__main__":
    main()
