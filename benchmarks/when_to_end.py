"""When should training on 20 Newsgroups end, and how fast should it be? Judged without labels, compared by test errors.

    NESI_DATA=... python benchmarks/when_to_end.py [--labels 800] [--runs 5] [--iterations 200]

A tenth of the training texts takes no part in training: their likelihood needs no label. Every learning rate is
followed over all iterations, also one that is lowered step by step whenever the likelihood no longer rises. Two tables:
the likelihoods and the test error on the way, and the test error that each rule for the end of training would have had.
Test errors decide nothing here; the last column, the lowest on the way, is what no honest rule can know.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np
from held_out_texts import A, C, held_out_split

import data_tools
from nesi.labels import draw_labels, mask_labels
from nesi.seeds import random_stream
from nesi.training.stopping import has_converged
from nesi.training.trainer import Trainer, TrainingSettings

TOLERANCE = 2.0  # as in params/newsgroups20.yaml
SCHEDULES = {"5 (the paper's)": [5.0], "2": [2.0], "1": [1.0], "0.5": [0.5], "5, 2, 1, 0.5": [5.0, 2.0, 1.0, 0.5]}
SHOWN = (1, 2, 5, 10, 20, 40, 60, 100, 200)
COLUMNS = ("log_likelihood", "held_out", "error")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--networks", nargs="+", choices=["ff", "r"], default=["ff", "r"])
    parser.add_argument("--labels", type=int, default=800)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=200)
    arguments = parser.parse_args()
    data = data_tools.load("newsgroups20")
    for network in arguments.networks:
        curves = {
            name: [followed(data, network, rates, run, arguments) for run in range(1, arguments.runs + 1)]
            for name, rates in SCHEDULES.items()
        }
        print(f"\n{network}, {arguments.labels} labels, mean of {arguments.runs} runs\n")
        print(on_the_way(curves))
        print()
        print(by_rule(curves), flush=True)


def followed(
    data: data_tools.Dataset, network: str, rates: list[float], run: int, arguments: argparse.Namespace
) -> dict[str, np.ndarray]:
    """Likelihoods and test error after every iteration of one run; all schedules of a run have the same start."""
    held_out, learned = held_out_split(data)
    y = data.y_train[learned]
    labels = mask_labels(y, draw_labels(y, arguments.labels, random_stream(1, "when to end, labels", run)))
    curve: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for trainer in stages(data.X_train[learned], labels, network, rates, run, arguments.iterations):
        curve["log_likelihood"].append(trainer.history["log_likelihood"][-1])
        curve["held_out"].append(float(trainer.trained().log_likelihood(data.X_train[held_out]).mean()))
        curve["error"].append(trainer.trained().percent_error(data.X_test, data.y_test))
    return {name: np.array(values) for name, values in curve.items()}


def stages(X, labels: np.ndarray, network: str, rates: list[float], run: int, iterations: int) -> Iterator[Trainer]:
    """The trainer after every iteration; the next rate takes over when the likelihood no longer rises."""
    W = R = None
    done = 0
    for stage, rate in enumerate(rates):
        rates_of_stage = {"epsilon_W": rate, "epsilon_R": 0.5}
        settings = TrainingSettings(network=network, C=C, A=A, **rates_of_stage, iterations=iterations, batch_size=1000)
        rng = random_stream(1, "when to end", run, stage)
        trainer = Trainer(settings, X, labels, 20, rng, W_init=W, R_init=R)
        while done < iterations:
            trainer.run_iteration()
            done += 1
            yield trainer
            if stage < len(rates) - 1 and has_converged(trainer.history, TOLERANCE):
                break
        W, R = trainer.W, trainer.R


def on_the_way(curves: dict[str, list[dict[str, np.ndarray]]]) -> str:
    lines = ["| epsilon_W x C/N | iterations | training texts | held-out texts | test error |", "|---|---|---|---|---|"]
    for name, runs in curves.items():
        for iteration in (n for n in SHOWN if n <= len(runs[0]["error"])):
            means = [np.mean([run[column][iteration - 1] for run in runs]) for column in COLUMNS]
            lines.append(f"| {name} | {iteration} | {means[0]:.0f} | {means[1]:.0f} | {means[2]:.2f} |")
    return "\n".join(lines)


def by_rule(curves: dict[str, list[dict[str, np.ndarray]]]) -> str:
    rules = {
        "last iteration": lambda run: len(run["error"]) - 1,
        "likelihood rises no more": first_converged,
        "held-out likelihood highest": lambda run: int(run["held_out"].argmax()),
        "(lowest test error)": lambda run: int(run["error"].argmin()),
    }
    lines = [f"| epsilon_W x C/N | {' | '.join(rules)} |", "|---" * (len(rules) + 1) + "|"]
    for name, runs in curves.items():
        cells = []
        for rule in rules.values():
            ends = [rule(run) for run in runs]
            errors = [run["error"][end] for run, end in zip(runs, ends, strict=True)]
            cells.append(f"{np.mean(errors):.2f} (iteration {np.median(ends) + 1:.0f})")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def first_converged(run: dict[str, np.ndarray]) -> int:
    likelihood = run["log_likelihood"].tolist()
    for end in range(1, len(likelihood) + 1):
        if has_converged({"log_likelihood": likelihood[:end], "self_labeled": [0.0] * end}, TOLERANCE):
            return end - 1
    return len(likelihood) - 1


if __name__ == "__main__":
    main()
