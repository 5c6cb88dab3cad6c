"""Time and memory of loading and of one pass over the data, at the sizes of Section 4.4.

    python benchmarks/large_data.py                               # the real digits and letters in NESI_DATA
    python benchmarks/large_data.py --points 344307 --side 28     # made images of the paper's number and size
    python benchmarks/large_data.py --points 344307 --side 128 --units 200

Images stay the bytes that they are (`data`); `beyond` is the peak of the process minus the data and the imports:
weights and their logarithms, the candidates of truncated posteriors, mini-batches as floats. The first pass includes
the search for candidates among all units; before it everything is compiled once, with few points. Linux only.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from data_tools import load
from nesi.networks import NETWORKS
from nesi.threads import limited_threads
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

_SMALL = 2000  # points, to compile with


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, help="made images, this many; else the real digits and letters")
    parser.add_argument("--side", type=int, default=28, help="pixels of a made image are side x side")
    parser.add_argument("--units", type=int, default=10000)
    parser.add_argument("--network", choices=list(NETWORKS), default="ff+")
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--name", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.points or given.name:
        with limited_threads(given.threads):
            print(measured(given), flush=True)
        return
    for name in ("emnist-part-digits", "emnist-part-letters"):
        subprocess.run([sys.executable, __file__, *sys.argv[1:], "--name", name], check=True)


def measured(given: argparse.Namespace) -> str:
    before, started = peak(), time.perf_counter()
    X, labels, n_classes = real_data(given.name) if given.name else made_images(given.points, given.side)
    loading, loaded = time.perf_counter() - started, peak() - before
    # As in the paper: A/D is about 1.15 for 28x28 and 1.5 for raw images.
    A = 900 if X.shape[1] == 784 else 1.5 * X.shape[1]
    settings = TrainingSettings(
        network=given.network, C=given.units, A=A, epsilon_W=0.2, epsilon_R=0.2, inference="truncated", threshold=0.6
    )

    def new_trainer(n_points: int) -> Trainer:
        rng = np.random.default_rng(np.random.SeedSequence(1))
        return Trainer(settings, X[:n_points], labels[:n_points], n_classes, rng)

    new_trainer(min(_SMALL, len(X))).run_iteration()
    trainer = new_trainer(len(X))
    seconds = [trainer.run_iteration().seconds for _ in range(given.passes)]
    started = time.perf_counter()
    trainer.activities()  # as greedy training does between its phases
    seconds.append(time.perf_counter() - started)
    weights = 2 * trainer.W.nbytes
    return (
        f"{given.name or 'made'}: {X.shape[0]} x {X.shape[1]}, C = {given.units}, {given.network}, batches of "
        f"{trainer.batch_size}: data {X.nbytes / 1e6:.0f} MB, loaded in {loading:.1f} s with {loaded / 1e6:.0f} MB; "
        f"passes {', '.join(f'{each:.1f}' for each in seconds[:-1])} s, "
        f"activities of all points {seconds[-1]:.1f} s; peak {peak() / 1e6:.0f} MB, beyond "
        f"{(peak() - before - X.nbytes) / 1e6:.0f} MB, of which W and log W {weights / 1e6:.0f} MB"
    )


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    with Path("/proc/self/status").open() as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def real_data(name: str) -> tuple[np.ndarray, np.ndarray, int]:
    """All training points, with 100 labels per class."""
    if not os.environ.get("NESI_DATA"):
        raise SystemExit("set NESI_DATA to the folder of the real data sets, or give --points")
    data = load(name)
    labels = np.full(len(data.y_train), -1)
    for k in range(len(data.class_names)):
        members = np.flatnonzero(data.y_train == k)[:100]
        labels[members] = k
    return data.X_train, labels, len(data.class_names)


def made_images(
    n_points: int, side: int, n_classes: int = 10, n_strokes: int = 500
) -> tuple[np.ndarray, np.ndarray, int]:
    """Bent strokes, each drawn once and shifted for every point; 100 labels per class."""
    rng = np.random.default_rng(np.random.SeedSequence(0))
    strokes = np.zeros((n_strokes, side, side), dtype=np.uint8)
    along = np.linspace(0, 1, 4 * side)
    for stroke in strokes:
        ends = rng.uniform(0.3, 0.7, (3, 2)) * side
        path = (
            np.outer((1 - along) ** 2, ends[0])
            + np.outer(2 * along * (1 - along), ends[1])
            + np.outer(along**2, ends[2])
        )
        for pen in np.ndindex(max(2, side // 16), max(2, side // 16)):
            stroke[tuple((path.astype(int) + pen).T)] = 255
    kind, shift = rng.integers(n_strokes, size=n_points), rng.integers(-side // 6, side // 6, size=(n_points, 2))
    X = np.empty((n_points, side * side), dtype=np.uint8)
    for row in range(n_points):
        X[row] = np.roll(strokes[kind[row]], shift[row], axis=(0, 1)).ravel()
    labels = np.where(np.arange(n_points) < 100 * n_classes, kind % n_classes, -1)
    return X, labels, n_classes


if __name__ == "__main__":
    main()
