"""The table of Appendix B.1: the size of the mini-batches changes neither test error nor likelihood.

    NESI_DATA=... python benchmarks/minibatch_table.py --runs 50

C = 30 units, the first N = 3000 training points of MNIST, all labeled; the paper does not say which points, which
network or how many iterations it took. Nor does it say which likelihood it means: eq. (loglikelihood) is that of inputs
and labels, but the authors' program has never used labels in it, so that both are shown; the second is the nearer one.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
from tqdm import tqdm

from data_tools.loading import load
from nesi.training.trainer import Trainer, TrainingSettings

PUBLISHED = {1: (23.1, 0.2, -836.472, 0.005), 10: (23.2, 0.2, -836.468, 0.005), 100: (23.0, 0.2, -836.475, 0.005)}


class Result(NamedTuple):
    test_error: float  # percent
    log_likelihood: float  # mean per training point, of inputs and labels: eq. (loglikelihood), as in records
    of_inputs: float  # the same of the inputs alone, without the labels: what the authors' program looks at


class Problem(NamedTuple):
    X: np.ndarray
    labels: np.ndarray
    X_test: np.ndarray
    test_labels: np.ndarray


def load_problem(data_dir: Path | None, points: int = 3000) -> Problem:
    data = load("mnist", data_dir)
    return Problem(data.X_train[:points], data.y_train[:points], data.X_test, data.y_test)


def train(problem: Problem, batch_size: int, seed: int, iterations: int, kind: str = "ff") -> Result:
    """One run with the paper's own mini-batch rule."""
    settings = TrainingSettings(
        network=kind, C=30, A=900, iterations=iterations, batch_size=batch_size, minibatch_rule="summed"
    )
    trainer = Trainer(settings, problem.X, problem.labels, 10, np.random.default_rng(seed))
    for _ in trainer:
        pass
    errors = trainer.trained().posterior(problem.X_test).argmax(axis=1) != problem.test_labels
    network = trainer.trained()
    likelihoods = [float(network.log_likelihood(problem.X, labels).mean()) for labels in (problem.labels, None)]
    return Result(100 * float(errors.mean()), *likelihoods)


def summary(values: list[float]) -> tuple[float, float, float]:
    """Mean, standard error of the mean, standard deviation."""
    deviation = float(np.std(values, ddof=1)) if len(values) > 1 else float("nan")
    return float(np.mean(values)), deviation / np.sqrt(len(values)), deviation


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--network", default="ff", choices=["ff", "r"])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 10, 100])
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    problem = load_problem(options.data_dir)
    print("| mini-batch size | test error [%] | std | log-likelihood | std | of inputs alone | std | paper |")
    print("|---|---|---|---|---|---|---|---|")
    for size in options.batches:
        runs = tqdm(range(options.runs), desc=f"mini-batches of {size}", disable=not sys.stderr.isatty())
        results = [train(problem, size, seed, options.iterations, options.network) for seed in runs]
        columns = [summary([result[column] for result in results]) for column in range(len(Result._fields))]
        cells = " | ".join(f"{mean:.3f} ± {sem:.3f} | {std:.3f}" for mean, sem, std in columns)
        paper = "{:.1f} ± {:.1f} %, {:.3f} ± {:.3f}".format(*PUBLISHED[size]) if size in PUBLISHED else ""
        print(f"| {size} | {cells} | {paper} |", flush=True)


if __name__ == "__main__":
    main()
