"""Does more unlabeled data help? The real digits of MNIST against millions of deformed ones, with the same labels.

    python benchmarks/deformed_digits.py FOLDER --points 3240000
    NESI_DATA=... python studies/more_data.py FOLDER --points 3240000 --out results/more_data

Everything but the points is the same: 10000 units, truncated posteriors, the learning rates of 60,000 points, and the
number of updates, so that ff+ sees real digits 54 times (r: 21 times) and each of 3.24 million deformed ones once. Few
labels are those of real digits, the same ones in both cases, which are repeated among deformed digits so that they are
as large a share of what is seen. With all labels every point has that of the digit that it was made from. The test
error is looked at once, at the end of each training; rates, passes and rules were fixed before. A call that was
interrupted goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from data_tools import load
from nesi.labels import UNLABELED, draw_labels, mask_labels
from nesi.seeds import random_stream
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.threads import limited_threads
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

REAL = 60_000  # the first points of the folder
CELLS = (("ff+", "few"), ("ff+", "all"), ("r", "few"), ("r", "all"))
PASSES = {"ff+": 54, "r": 21}  # over the real digits; as long as params/mnist.yaml takes to converge
PASSES_R = 300  # of the second layer of ff+


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--points", type=int, nargs="+", default=[3_240_000])
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--few", type=int, default=100)
    parser.add_argument("--run", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/more_data"))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    records = given.out / "records.jsonl"
    with limited_threads(given.threads):
        for n_points in (REAL, *given.points):
            for network, labels in CELLS:
                about = {"units": given.units, "points": n_points, "network": network, "run": given.run}
                about["labels"] = given.few if labels == "few" else "all"
                if any(about.items() <= record.items() for record in known(records)):
                    continue
                record = about | measured(given, about)
                with records.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(json.dumps(record), flush=True)


def known(records: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in records.read_text().splitlines()] if records.exists() else []


def points_and_labels(folder: Path, n_points: int, few: int, every: bool, run: int) -> tuple[np.ndarray, np.ndarray]:
    """In memory, as bytes. `few`: so many labels of real digits, which come as often as among the real ones."""
    data = load(folder)
    X, y = data.X_train, data.y_train[:n_points]
    drawn = draw_labels(y[:REAL], few, random_stream(1, "more data", few, run))
    rows = np.concatenate([np.arange(n_points), np.repeat(drawn, n_points // REAL - 1)])
    return X[rows], y[rows] if every else mask_labels(y, drawn)[rows]


def measured(given: argparse.Namespace, about: dict[str, Any]) -> dict[str, Any]:
    network, n_points = about["network"], about["points"]
    every = about["labels"] == "all"
    X, labels = points_and_labels(given.folder, n_points, given.few, every, given.run)
    equal = REAL / n_points  # this share of the passes makes as many updates
    settings = TrainingSettings(
        network=network,
        C=given.units,
        A=900,
        epsilon_W=0.2,
        epsilon_R=0.2,
        threshold=0.6,
        inference="truncated",
        truncated={"start": "walk"},
        greedy=network == "ff+",
        iterations=max(1, round(PASSES[network] * equal)),
        iterations_R=max(1, round(PASSES_R * equal)),
    )
    rng = random_stream(1, "more data", network, given.run)
    R_init = "points" if network == "r" and every else None
    seen = (REAL, REAL if every else given.few)
    trainer = Trainer(settings, X, labels, 10, rng, "points", R_init, seen)
    seconds = train(trainer, given.out / "checkpoints", about)
    test = load(given.folder)
    X_test, y_test = test.X_test[:], test.y_test
    trained = trainer.trained()
    return {
        "test_error": trained.percent_error(X_test, y_test),
        "test_log_likelihood": float(trained.log_likelihood(X_test).mean()),
        "log_likelihood": trainer.history["log_likelihood"],
        "self_labeled": trainer.history["self_labeled"][-1],
        "share_of_labels": float(np.mean(labels != UNLABELED)),
        "resolved": trainer.account(),
        "seconds": round(seconds),
    }


def train(trainer: Trainer, folder: Path, about: dict[str, Any]) -> float:
    """With a checkpoint now and then; a first layer that another number of labels has trained is taken over."""
    folder.mkdir(exist_ok=True)
    name = "-".join(str(value) for value in about.values())
    first = "-".join(str(value) for key, value in about.items() if key != "labels")
    own, shared = folder / f"{name}.npz", folder / f"{first}-first.npz"
    seconds, saved = 0.0, time.monotonic()
    for path in (own, shared):
        if path.exists() and trainer.settings.greedy >= (path is shared):
            state = load_arrays(path)
            seconds = float(state.pop("run_seconds"))
            trainer.restore(state)
            break
    while not trainer.finished:
        info = trainer.run_iteration()
        seconds += info.seconds
        print(f"{name}: {info.phase} {info.iteration}: {info.log_likelihood:.3f}, {seconds:.0f} s", file=sys.stderr)
        ended = trainer.phase == "second" and info.phase == "first"
        if ended or time.monotonic() - saved > 60:
            path = shared if ended else own
            save_arrays(path, {**trainer.state(), "run_seconds": np.asarray(seconds)}, {})
            saved = time.monotonic()
    own.unlink(missing_ok=True)
    return seconds


if __name__ == "__main__":
    main()
