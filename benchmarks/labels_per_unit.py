"""What few labels cost on a given first layer: 20 Newsgroups, 6 classes, C = 20.

    NESI_DATA=... python benchmarks/labels_per_unit.py DIR [--labels 200 800 2000] [--draws 20]

DIR was written by `run_experiment.py params/newsgroups6.yaml`; the first layers are from its kept ff networks. Texts
are long, so a text belongs to one unit and R_kc is the share of unit c among the labeled texts of class k. Labels are
drawn in two ways, the same number per class or the same number per newsgroup. Test errors in percent, means over the
draws: this is to understand results, and no setting was chosen by it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import data_tools
from nesi.labels import UNLABELED, draw_labels
from nesi.storage.arrays import load_arrays
from nesi.training.trainer import Trainer, TrainingSettings

A, C, K = 80000, 20, 6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--labels", type=int, nargs="+", default=[200, 800, 2000])
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    data, groups = data_tools.load("newsgroups6"), data_tools.load("newsgroups20").y_train
    print("| first layer of | " + " | ".join(f"{n}, by class | {n}, by group" for n in arguments.labels) + " | all |")
    print("|---" * (2 * len(arguments.labels) + 2) + "|")
    for path in sorted((arguments.directory / "weights").glob("ff-*.npz")):
        train, test = (winners(load_arrays(path)["W"], X) for X in (data.X_train, data.X_test))

        def error(labeled: np.ndarray, train: np.ndarray = train, test: np.ndarray = test) -> float:
            counts = np.zeros((K, C))
            np.add.at(counts, (data.y_train[labeled], train[labeled]), 1)
            classes = (counts / counts.sum(axis=1, keepdims=True)).argmax(axis=0)
            return 100 * float(np.mean(classes[test] != data.y_test))

        errors = []
        for n_labels in arguments.labels:
            for balanced_over in (data.y_train, groups):
                rngs = (np.random.default_rng([draw, n_labels]) for draw in range(arguments.draws))
                errors.append(np.mean([error(draw_labels(balanced_over, n_labels, rng)) for rng in rngs]))
        errors.append(error(np.arange(len(train))))
        print(f"| {path.stem} | " + " | ".join(f"{value:.2f}" for value in errors) + " |", flush=True)


def winners(W: np.ndarray, X: sp.csr_array) -> np.ndarray:
    """The most active unit of every text."""
    settings = TrainingSettings(network="ff", C=C, A=A, iterations=0)
    each_unit_a_class = np.eye(C, dtype=W.dtype)
    unlabeled = np.full(X.shape[0], UNLABELED)
    trainer = Trainer(settings, X, unlabeled, C, np.random.default_rng(0), W_init=W, R_init=each_unit_a_class)
    return trainer.trained().posterior(X).argmax(axis=1)


if __name__ == "__main__":
    main()
