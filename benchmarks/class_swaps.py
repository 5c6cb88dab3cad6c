"""With one label per class some runs mix up classes. Can a network notice, without any further label?

    NESI_DATA=... python benchmarks/class_swaps.py DIR [--draws 8] [--restarts 3] [--workers 2]

ff+-NeSi on MNIST with 10 labels. Every draw of labels is learned from several times, each time on a different first
layer (DIR keeps these and every finished run; the same command continues where it stopped). Each run yields numbers
that need no labels beyond the ten: the log-likelihood, how unevenly the network spreads its units and the training
points over the classes (which the model assumes to be equally likely), how many of the ten labeled points it assigns to
another class, how many points are self-labeled, in which iteration half of them were, and how far the restarts with the
same labels differ. Test errors are used only to see which of these numbers would have revealed the mix-up, and whether
a vote of the restarts would have helped.
"""

from __future__ import annotations

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

import data_tools
from nesi.labels import UNLABELED, draw_labels, mask_labels
from nesi.seeds import random_stream
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.threads import thread_environment
from nesi.training.trainer import Trainer, TrainingSettings

SIGNALS = {  # and whether a high value speaks for the run
    "log_likelihood": True,
    "uneven_points": False,
    "uneven_fields": False,
    "labels_lost": False,
    "self_labeled": True,
    "set_in": False,
    "disagreement": False,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--units", type=int, default=10000)
    parser.add_argument("--iterations", type=int, default=2000, help="of the second layer")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    arguments.directory.mkdir(parents=True, exist_ok=True)
    draws, restarts = range(1, arguments.draws + 1), range(1, arguments.restarts + 1)
    with thread_environment(1), ProcessPoolExecutor(arguments.workers, get_context("spawn")) as workers:
        list(workers.map(partial(first_layer, arguments), restarts))
        runs = list(workers.map(partial(one_run, arguments), *zip(*product(draws, restarts), strict=True)))
    print(report(runs, len(restarts)))


def settings_of(arguments: argparse.Namespace) -> TrainingSettings:
    return TrainingSettings(
        network="ff+",
        C=arguments.units,
        A=900,
        threshold=0.6,
        iterations=500,
        iterations_R=arguments.iterations,
        greedy=True,
        tolerance=0.005,
        inference="truncated",
        test_inference="truncated",
    )


def first_layer(arguments: argparse.Namespace, restart: int) -> np.ndarray:
    """W of one restart; it depends on no label."""
    path = arguments.directory / f"first-layer-{restart}.npz"
    if not path.exists():
        data = data_tools.load("mnist")
        unlabeled = np.full(len(data.y_train), UNLABELED)
        trainer = Trainer(settings_of(arguments), data.X_train, unlabeled, 10, random_stream(1, "class swaps", restart))
        while trainer.phase == "first":
            trainer.run_iteration()
        save_arrays(path, {"W": trainer.W}, {"units": arguments.units, "restart": restart})
        print(f"first layer {restart}: {trainer.iteration} passes", flush=True)
    return load_arrays(path, {"units": arguments.units, "restart": restart})["W"]


def one_run(arguments: argparse.Namespace, draw: int, restart: int) -> dict[str, np.ndarray]:
    """The second layer upon one first layer, with one draw of labels."""
    path = arguments.directory / f"draw-{draw}-restart-{restart}.npz"
    about = {"units": arguments.units, "iterations": arguments.iterations, "draw": draw, "restart": restart}
    about["signals"] = list(SIGNALS)
    if not path.exists():
        data = data_tools.load("mnist")
        labeled = draw_labels(data.y_train, 10, random_stream(1, "class swaps, labels", draw))
        labels = mask_labels(data.y_train, labeled)
        rng, W = random_stream(1, "class swaps, order", draw, restart), first_layer(arguments, restart)
        trainer = Trainer(settings_of(arguments), data.X_train, labels, 10, rng, W_init=W)
        trainer.keep_first_layer()
        for _ in trainer:
            pass
        believed = trainer.trained().posterior(data.X_train).argmax(axis=1)
        answers = trainer.trained().posterior(data.X_test)
        history = np.array(trainer.history["self_labeled"])
        run = {
            "log_likelihood": trainer.trained().log_likelihood(data.X_train, labels).mean(),
            "uneven_points": unevenness(np.bincount(believed, minlength=10)),
            "uneven_fields": unevenness((trainer.R / trainer.R.sum(axis=0)).sum(axis=1)),
            "labels_lost": np.sum(believed[labeled] != data.y_train[labeled]),
            "self_labeled": history[-1],
            "set_in": np.argmax(history > 0.5) if history.max() > 0.5 else len(history),
            "believed": believed.astype(np.uint8),
            "answers": answers.astype(np.float32),
            "error": 100 * np.mean(answers.argmax(axis=1) != data.y_test),
        }
        save_arrays(path, run, about)
        shown = {name: round(float(run[name]), 4) for name in ("error", *SIGNALS) if name in run}
        print(f"draw {draw}, restart {restart}: {json.dumps(shown)}", flush=True)
    return load_arrays(path, about)


def unevenness(amounts: np.ndarray) -> float:
    """How far the shares of the classes are from equal ones: the Kullback-Leibler divergence, 0 to log K."""
    shares = amounts / amounts.sum()
    return float(np.sum(shares * np.log(len(shares) * np.maximum(shares, 1e-12))))


def report(runs: list[dict[str, np.ndarray]], restarts: int) -> str:
    """Which number goes with the test error, and what would be gained by trusting it."""
    believed = np.array([run["believed"] for run in runs]).reshape(-1, restarts, len(runs[0]["believed"]))
    differ = np.array([[(one != draw).mean(axis=1).sum() / max(restarts - 1, 1) for one in draw] for draw in believed])
    values = {name: np.array([float(run[name]) for run in runs]) for name in SIGNALS if name != "disagreement"}
    values["disagreement"] = differ.ravel()
    error = np.array([float(run["error"]) for run in runs])
    by_draw = error.reshape(-1, restarts)
    lines = [
        "| chosen among the restarts of each draw | mean test error | rank correlation, all runs | within a draw |",
        "|---|---|---|---|",
        f"| any | {error.mean():.2f} | | |",
    ]
    for name, high_is_good in SIGNALS.items():
        signal = -values[name] if high_is_good else values[name]
        chosen = by_draw[np.arange(len(by_draw)), signal.reshape(by_draw.shape).argmin(axis=1)]
        within = (spread - spread.mean(axis=1, keepdims=True) for spread in (signal.reshape(by_draw.shape), by_draw))
        ranks = f"{correlation(signal, error)} | {correlation(*(spread.ravel() for spread in within))}"
        lines.append(f"| best {name} | {chosen.mean():.2f} | {ranks} |")
    answers = np.array([run["answers"] for run in runs]).reshape(*by_draw.shape, -1, 10).mean(axis=1).argmax(axis=2)
    vote = 100 * (answers != data_tools.load("mnist").y_test).mean(axis=1)
    lines.append(f"| mean posterior of the restarts | {vote.mean():.2f} | | |")
    lines.append(f"| lowest test error (not honest) | {by_draw.min(axis=1).mean():.2f} | | |")
    listed = (f"draw {draw}: " + ", ".join(f"{one:.2f}" for one in row) for draw, row in enumerate(by_draw, start=1))
    return "\n".join([*lines, "", "Test errors by draw of labels:", *listed])


def correlation(signal: np.ndarray, error: np.ndarray) -> str:
    return f"{spearmanr(signal, error).statistic:+.2f}" if np.ptp(signal) > 0 else "none: always the same"


if __name__ == "__main__":
    main()
