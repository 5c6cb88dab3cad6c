"""What shuffling in blocks does to learning: the log-likelihood of MNIST after every pass, against a full shuffle.

    NESI_DATA=... python studies/block_shuffle.py

The data is cut in as many parts as 4 million digits are, with as many blocks each: of 32 parts, 100 blocks are shuffled
together. The worst order on disk is one class after the other; then a block has points of one class only.
"""

from __future__ import annotations

import argparse

import numpy as np

from data_tools import load
from nesi import observations
from nesi.threads import limited_threads
from nesi.training import order
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import Trainer

PARTS, BLOCKS = 32, 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--passes", type=int, default=15)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    X, y = load("mnist").X_train, load("mnist").y_train
    observations._BLOCK_BYTES = X.nbytes // (PARTS * BLOCKS)
    order._BYTES_TOGETHER = X.nbytes // PARTS
    by_class = np.argsort(y, kind="stable")
    for name, rows, shuffle in (
        ("as it is, full shuffle", slice(None), True),
        ("as it is, blocks", slice(None), "blocks"),
        ("one class after the other, full shuffle", by_class, True),
        ("one class after the other, blocks", by_class, "blocks"),
        ("one class after the other, no shuffle", by_class, False),
    ):
        found = [likelihoods(X[rows], given.units, given.passes, shuffle, run) for run in range(given.runs)]
        chosen = [0, given.passes // 3 - 1, given.passes - 1]
        middle, spread = np.mean(found, axis=0)[chosen], np.std(found, axis=0, ddof=1)[chosen]
        told = ", ".join(f"{m:.3f} ({s:.3f})" for m, s in zip(middle, spread, strict=True))
        print(f"{name}: log-likelihood after {', '.join(str(i + 1) for i in chosen)} passes: {told}", flush=True)


def likelihoods(X: np.ndarray, units: int, passes: int, shuffle: bool | str, run: int) -> list[float]:
    """Of each point just before it was learned from, the mean over every pass."""
    settings = TrainingSettings(
        network="ff", C=units, A=900, epsilon_W=0.2, inference="truncated", shuffle=shuffle, batch_size=250
    )
    trainer = Trainer(settings, X, np.full(len(X), -1), 10, np.random.default_rng(run))
    with limited_threads(1):
        return [trainer.run_iteration().log_likelihood for _ in range(passes)]


if __name__ == "__main__":
    main()
