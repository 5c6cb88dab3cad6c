"""Where one network on many workers stops to scale, on paper: compute and traffic of a round for 8, 64, 512 workers.

    NESI_DATA=... python studies/scaling_on_paper.py

Measured, as the time of one core (of MNIST): a point of a mini-batch; and what a round costs each worker however many
there are, new rows of W and their logarithms. Calculated: in a round a worker sends the rows that its mini-batch
changes to their owners, and receives all rows that changed from theirs: at most 2 C D numbers of 4 bytes, whatever the
number of points. Mini-batches of all workers together may be as large as the learning rate allows (no unit forgets more
than 5 % in a round), and that of one worker has at most 32 million inputs. What owners add up is little: left out.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from data_tools import load
from nesi.engines.weights import Weights
from nesi.threads import limited_threads
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

INPUTS_OF_A_BATCH = 32_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, nargs="+", default=[4_000_000, 100_000_000])
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--epsilon", type=float, default=0.2)
    given = parser.parse_args()
    per_point, rest, inputs = measured(given.units)
    print(f"C = {given.units}: {1e6 * per_point:.1f} us per point, {rest:.3f} s per round and worker\n")
    print(
        "| points | workers | points per worker and round | compute | MB sent and received | 10 Gbit/s | 100 Gbit/s |"
    )
    print("|---|---|---|---|---|---|---|")
    for points in given.points:
        for workers in (8, 64, 512):
            together = 0.05 * points / given.epsilon
            batch = max(1, min(together / workers, INPUTS_OF_A_BATCH / inputs, points / workers))
            compute = batch * per_point
            # Every point of the batch changes some ten units, until all units change.
            rows = min(given.units, 10 * batch)
            sent = 4 * inputs * rows
            received = 4 * inputs * min(given.units, 10 * batch * workers)
            speeds = []
            for gigabits in (10, 100):
                travel = (sent + received) * 8 / (gigabits * 1e9)
                alone = batch * workers * per_point + rest
                speedup = alone / (compute + rest + travel)
                speeds.append(f"{speedup:.0f} x ({100 * speedup / workers:.0f} %)")
            volume = (sent + received) / 1e6
            print(f"| {points:,} | {workers} | {batch:,.0f} | {compute:.3f} s | {volume:.0f} | {' | '.join(speeds)} |")


def measured(units: int) -> tuple[float, float, int]:
    """Seconds of one core per point and per round, and the number of inputs."""
    X = load("mnist").X_train[:20_000]
    settings = TrainingSettings(
        network="ff", C=units, A=900, epsilon_W=0.2, inference="truncated", truncated={"start": "walk"}
    )
    with limited_threads(1):
        trainer = Trainer(settings, X, np.full(len(X), -1), 10, np.random.default_rng(1))
        trainer.run_iteration()
        started = time.process_time()
        trainer.run_iteration()
        per_point = (time.process_time() - started) / len(X)
        weights = Weights(trainer.W, trainer.R, "float32", sparse=False)
        started = time.process_time()
        weights.replace_rows(np.arange(units), trainer.W, trainer.R)
        return per_point, time.process_time() - started, X.shape[1]


if __name__ == "__main__":
    main()
