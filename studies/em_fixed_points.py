"""Neural learning and EM have the same fixed points (Section 3): the paper's claim, on MNIST.

    NESI_DATA=... python studies/em_fixed_points.py [--units 100] [--iterations 100]

r-NeSi with all labels learns online, first with the paper's rates and then with ever smaller ones; EM starts from the
same weights. Then each goes on from where the other has ended: at a common fixed point neither moves away.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from data_tools.loading import load
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

SMALLER_RATES = (0.02, 0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=100, help="C (default: 100)")
    parser.add_argument("--iterations", type=int, default=100, help="of EM, and of learning with the paper's rates")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    data = load("mnist", options.data_dir)
    study = Study(data.X_train, np.asarray(data.y_train), options.units)

    start = study.weights_at_start()
    em = study.train(start, options.iterations, "EM", training="em")
    online = study.train(start, options.iterations, "online, the paper's rates", epsilon_W=0.2, epsilon_R=0.2)
    for rate in SMALLER_RATES:
        short = max(options.iterations // 4, 1)
        online = study.train(online, short, f"online, rates of {rate:g}", epsilon_W=rate, epsilon_R=rate)
    slow = {"epsilon_W": SMALLER_RATES[-1], "epsilon_R": SMALLER_RATES[-1]}
    study.train(em, max(options.iterations // 4, 1), "EM, then online", **slow)
    study.train(online, max(options.iterations // 4, 1), "online, then EM", training="em")


class Study:
    """Trains from given weights and prints what came of it."""

    def __init__(self, X: Any, labels: np.ndarray, units: int) -> None:
        self._X, self._labels, self._units = X, labels, units
        print("| training | iterations | log-likelihood | change of W [%] | change of R [%] |")
        print("|---|---|---|---|---|", flush=True)

    def weights_at_start(self) -> tuple[np.ndarray, np.ndarray]:
        trainer = self._trainer(None, iterations=1)
        print(f"| start | 0 | {trainer.training_log_likelihood():.3f} | | |", flush=True)
        return trainer.W, trainer.R

    def train(
        self, start: tuple[np.ndarray, np.ndarray], iterations: int, name: str, **settings: Any
    ) -> tuple[np.ndarray, np.ndarray]:
        trainer = self._trainer(start, iterations=iterations, **settings)
        for _ in tqdm(trainer, total=iterations, desc=name, disable=not sys.stderr.isatty()):
            pass
        # Half of the summed differences: 100 % if nothing is where it was.
        changes = [
            100 * np.abs(new - old).sum() / (2 * old.sum())
            for new, old in zip((trainer.W, trainer.R), start, strict=True)
        ]
        likelihood = trainer.training_log_likelihood()
        print(f"| {name} | {iterations} | {likelihood:.3f} | {changes[0]:.3f} | {changes[1]:.3f} |", flush=True)
        return trainer.W, trainer.R

    def _trainer(self, start: tuple[np.ndarray, np.ndarray] | None, **settings: Any) -> Trainer:
        chosen = {"network": "r", "C": self._units, "A": 900.0, "batch_size": 100, **settings}
        W, R = start or (None, None)
        return Trainer(
            TrainingSettings(**chosen), self._X, self._labels, 10, np.random.default_rng(1), W_init=W, R_init=R
        )


if __name__ == "__main__":
    main()
