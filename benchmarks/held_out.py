"""How r-NeSi with all labels should start and when it should end, judged on training points that are held out.

    NESI_DATA=... python benchmarks/held_out.py [--iterations 60] [--units 10000]

Trains on 50000 points of MNIST and tests on the other 10000 training points; the test set stays closed. All labels of
the training set are allowed in this setting, so that some of them may validate.
"""

from __future__ import annotations

import argparse

import numpy as np

import data_tools
from nesi.training.trainer import Trainer, TrainingSettings

SHOWN = (1, 5, 10, 15, 20, 30, 40, 50, 60, 70)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--iterations", type=int, default=60)
    parser.add_argument("--units", type=int, default=10000)
    arguments = parser.parse_args()
    data = data_tools.load("mnist")
    order = np.random.default_rng(77).permutation(len(data.y_train))
    learned, held_out = np.sort(order[:50000]), np.sort(order[50000:])
    X, y = data.X_train[learned], data.y_train[learned]
    settings = TrainingSettings(
        network="r", C=arguments.units, A=900.0, iterations=arguments.iterations, inference="truncated"
    )
    print(f"{'start of R':>10} {'passes':>6} {'log-likelihood':>14} {'error on held-out points [%]':>29}")
    for start in ("uniform", "points"):
        trainer = Trainer(settings, X, y, 10, np.random.default_rng(1), R_init=start)
        for info in trainer:
            if info.iteration in SHOWN:
                predicted = trainer.trained().posterior(data.X_train[held_out]).argmax(axis=1)
                error = 100 * np.mean(predicted != data.y_train[held_out])
                print(f"{start:>10} {info.iteration:>6} {info.log_likelihood:>14.2f} {error:>29.2f}", flush=True)


if __name__ == "__main__":
    main()
