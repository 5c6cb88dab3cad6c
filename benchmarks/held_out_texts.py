"""Sizes of mini-batches and learning rates on 20 Newsgroups, judged by the likelihood of texts that are held out.

    NESI_DATA=... python benchmarks/held_out_texts.py [--dataset newsgroups6] [--batches 100 1000] [--rates 5 2 1 0.5]

A tenth of the training texts takes no part in training. Their likelihood needs no label, so this may be asked in every
setting. r-NeSi with 200 labels, parameters of the paper, one run each; the mean over the last 10 iterations.
"""

from __future__ import annotations

import argparse

import numpy as np

import data_tools
from nesi.labels import draw_labels, mask_labels
from nesi.training.trainer import Trainer, TrainingSettings

A, LABELS, C = 80000.0, 200, 20
LAST = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--dataset", choices=["newsgroups20", "newsgroups6"], default="newsgroups20")
    parser.add_argument("--batches", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--rates", type=float, nargs="+", default=[5.0, 2.0, 1.0, 0.5], help="epsilon_W, x C/N")
    parser.add_argument("--iterations", type=int, default=100)
    arguments = parser.parse_args()
    data = data_tools.load(arguments.dataset)
    held_out, learned = held_out_split(data)
    y = data.y_train[learned]
    labels = mask_labels(y, draw_labels(y, LABELS, np.random.default_rng(5)))
    print(f"{'batch':>6} {'epsilon_W':>9} {'training texts':>15} {'held-out texts':>15}   log-likelihood per text")
    settings = [(batch, arguments.rates[0]) for batch in arguments.batches]
    settings += [(arguments.batches[-1], rate) for rate in arguments.rates[1:]]
    for batch, rate in settings:
        rates = {"epsilon_W": rate, "epsilon_R": 0.5}
        chosen = TrainingSettings(network="r", C=C, A=A, **rates, iterations=arguments.iterations, batch_size=batch)
        trainer = Trainer(chosen, data.X_train[learned], labels, len(data.class_names), np.random.default_rng(1))
        seen, unseen = [], []
        for info in trainer:
            if info.iteration > arguments.iterations - LAST:
                seen.append(info.log_likelihood)
                unseen.append(float(trainer.trained().log_likelihood(data.X_train[held_out]).mean()))
        print(f"{batch:>6} {rate:>9g} {np.mean(seen):>15.1f} {np.mean(unseen):>15.1f}", flush=True)


def held_out_split(data: data_tools.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """Which training texts take no part in training, a tenth of them, and which do."""
    order = np.random.default_rng(77).permutation(len(data.y_train))
    held_out, learned = np.split(order, [len(order) // 10])
    return np.sort(held_out), np.sort(learned)


if __name__ == "__main__":
    main()
