"""Letters in their natural frequencies: what the class prior and the way labels are drawn do to the test error.

    NESI_DATA=... python studies/uneven_classes.py --out DIR [--units 2000] [--runs 3] [--labels 520 5200]

The model's prior over classes is uniform; an O is thirteen times as frequent as a j here. Labels are drawn as in the
paper, equally many per class, or as they come. The prior is uniform, that of the training set (as if known from
elsewhere), or that of the drawn labels, with one more of each class. For every combination: the error on the test set,
whose classes are as uneven as those of the training set, and the mean of the errors of all classes.

What is done stays in DIR/results.jsonl: the same command goes on where it was interrupted. The first layer of ff and
ff+ hears of no label, so each run trains it once.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from tqdm import tqdm

from data_tools.dataset import Dataset
from data_tools.loading import load
from nesi.labels import draw_labels, mask_labels
from nesi.report.figures import NETWORK_COLOURS, new_figure, save_figure
from nesi.seeds import random_stream
from nesi.threads import limited_threads
from nesi.training.settings import TrainingSettings
from nesi.training.trainer import State, Trainer

DRAWS = ("per class", "as they come")
PRIORS = ("uniform", "training set", "drawn labels")
_GREEDY = {"greedy": True, "tolerance": 0.005, "iterations_R": 250}
SETTINGS: dict[str, dict[str, Any]] = {  # as in params/emnist_letters.yaml, half as long
    "ff": {"epsilon_R": 0.2, **_GREEDY},
    "ff+": {"epsilon_R": 1.0, **_GREEDY},
    "r": {"epsilon_R": 0.2, "tolerance": 0.005, "stopping": True},
}


class Variant(NamedTuple):
    """One training of the study."""

    run: int
    network: str
    labels: int
    draw: str
    prior: str


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="for results.jsonl and the picture")
    parser.add_argument("--units", type=int, default=2000, help="C (default: 2000)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--labels", type=int, nargs="+", default=[520, 5200])
    parser.add_argument("--networks", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    data = load("emnist-part-letters", options.data_dir)
    results = Results(options.out / "results.jsonl", options.units)
    wanted = list(variants(options.runs, options.networks, options.labels))
    with limited_threads(1):
        study = Study(data, options.units)
        for variant in tqdm([variant for variant in wanted if variant not in results.done]):
            results.add(variant, study.confusion(variant))
    shown = {variant: results.done[variant] for variant in wanted}
    print(table(shown, options.networks, options.labels))
    save_figure(picture(shown, data, options.networks, options.labels), options.out / "uneven_classes.png")


def variants(runs: int, networks: list[str], labels: list[int]) -> Iterator[Variant]:
    """Labels that are drawn per class say nothing about frequencies: their own prior is the uniform one."""
    for run, network, number, draw, prior in product(range(1, runs + 1), networks, labels, DRAWS, PRIORS):
        if (draw, prior) != ("per class", "drawn labels"):
            yield Variant(run, network, number, draw, prior)


class Results:
    """Confusion matrices (true class, answer) by variant, in a file with a line for each."""

    def __init__(self, path: Path, units: int) -> None:
        self._path, self._units = path, units
        self.done: dict[Variant, np.ndarray] = {}
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            if entry["units"] == units:
                self.done[Variant(**entry["variant"])] = np.array(entry["confusion"])

    def add(self, variant: Variant, confusion: np.ndarray) -> None:
        self.done[variant] = confusion
        entry = {"variant": variant._asdict(), "units": self._units, "confusion": confusion.tolist()}
        with self._path.open("a") as stream:
            stream.write(json.dumps(entry) + "\n")


class Study:
    """Trains one network after the other; those of a run have their first layer in common, if it hears of no label."""

    def __init__(self, data: Dataset, units: int) -> None:
        self._data, self._units, self._K = data, units, len(data.class_names)
        self._first_layer: tuple[int, State] | None = None

    def confusion(self, variant: Variant) -> np.ndarray:
        """Counts (true class, answer) on the test set."""
        y, K = self._data.y_train, self._K
        rng = random_stream(1, "uneven classes", variant.run, variant.labels, variant.draw)
        drawn = drawn_labels(y, variant.labels, variant.draw, rng)
        prior = class_prior(variant.prior, y, drawn, K)
        trainer = self._trainer(variant, mask_labels(y, drawn), prior)
        for _ in trainer:
            pass
        answers = trainer.trained().posterior(self._data.X_test).argmax(axis=1)
        confusion = np.zeros((K, K), dtype=np.int64)
        np.add.at(confusion, (self._data.y_test, answers), 1)
        return confusion

    def _trainer(self, variant: Variant, labels: np.ndarray, prior: np.ndarray | None) -> Trainer:
        trainer = self._new_trainer(variant, labels, prior)
        if trainer.phase != "first":
            return trainer
        if self._first_layer is None or self._first_layer[0] != variant.run:
            teacher = self._new_trainer(variant._replace(network="ff"), labels, None)
            while teacher.phase == "first":
                teacher.run_iteration()
            self._first_layer = variant.run, teacher.state()
        trainer.restore(self._first_layer[1])
        return trainer

    def _new_trainer(self, variant: Variant, labels: np.ndarray, prior: np.ndarray | None) -> Trainer:
        settings = TrainingSettings(
            network=variant.network, C=self._units, A=900, epsilon_W=0.2, threshold=0.6, iterations=500,
            inference="truncated", batch_size=2900, class_prior=prior, **SETTINGS[variant.network],
        )  # fmt: skip
        rng = random_stream(1, "uneven classes", "training", variant.run)
        return Trainer(settings, self._data.X_train, labels, self._K, rng)


def drawn_labels(y: np.ndarray, number: int, draw: str, rng: np.random.Generator) -> np.ndarray:
    """Indices of the points whose label is known."""
    return draw_labels(y, number, rng) if draw == "per class" else np.sort(rng.choice(len(y), number, replace=False))


def class_prior(prior: str, y: np.ndarray, drawn: np.ndarray, K: int) -> np.ndarray | None:
    if prior == "uniform":
        return None
    counts = np.bincount(y, minlength=K) if prior == "training set" else np.bincount(y[drawn], minlength=K) + 1
    return counts / counts.sum()


# ---- what came of it ---------------------------------------------------------------------------------------------


def error(confusion: np.ndarray) -> float:
    return float(100 * (1 - np.trace(confusion) / confusion.sum()))


def class_errors(confusion: np.ndarray) -> np.ndarray:
    return 100 * (1 - np.diag(confusion) / confusion.sum(axis=1))


def of_cell(shown: dict[Variant, np.ndarray], network: str, labels: int, draw: str, prior: str) -> list[np.ndarray]:
    return [counts for variant, counts in shown.items() if variant[1:] == (network, labels, draw, prior)]


def mean_and_sem(values: list[float]) -> str:
    sem = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.2f} ± {sem:.2f} ({len(values)})" if len(values) > 1 else f"{values[0]:.2f} (1)"


def table(shown: dict[Variant, np.ndarray], networks: list[str], labels: list[int]) -> str:
    lines = [
        "| network | labels | drawn | prior | test error [%] | mean over classes [%] |",
        "|---|---|---|---|---|---|",
    ]
    for network, number, draw, prior in product(networks, labels, DRAWS, PRIORS):
        if cells := of_cell(shown, network, number, draw, prior):
            plain = mean_and_sem([error(counts) for counts in cells])
            by_class = mean_and_sem([float(class_errors(counts).mean()) for counts in cells])
            lines.append(f"| {network} | {number} | {draw} | {prior} | {plain} | {by_class} |")
    return "\n".join(lines)


def picture(shown: dict[Variant, np.ndarray], data: Dataset, networks: list[str], labels: list[int]) -> Figure:
    """Above: both errors of every combination; below: how the error of each class changes with the right prior."""
    figure = new_figure(4.6 * len(labels) + 1.8, 8.0)
    above, below = figure.subplots(2, len(labels), squeeze=False, sharey="row")
    for axes, number in zip(above, labels, strict=True):
        _draw_errors(axes, {variant: counts for variant, counts in shown.items() if variant.labels == number}, networks)
        axes.set_title(f"{number} labels", fontsize=9)
    for axes, number in zip(below, labels, strict=True):
        _draw_changes(axes, shown, data, networks, number)
    above[0].set_ylabel("error [%]")
    below[0].set_ylabel("change of the error of a class [points]")
    handles, names = above[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _draw_errors(axes: Axes, shown: dict[Variant, np.ndarray], networks: list[str]) -> None:
    """Filled: the test error; open: the mean of the errors of all classes; a point per run."""
    combinations = [pair for pair in product(DRAWS, PRIORS) if pair != (DRAWS[0], PRIORS[2])]
    for place, network in enumerate(networks):
        colour, shift = NETWORK_COLOURS[network], 0.18 * (place - (len(networks) - 1) / 2)
        chosen = [(variant, counts) for variant, counts in shown.items() if variant.network == network]
        x = [combinations.index((variant.draw, variant.prior)) + shift for variant, _ in chosen]
        axes.plot(x, [error(counts) for _, counts in chosen], "o", color=colour, label=f"{network}, test error")
        by_class = [class_errors(counts).mean() for _, counts in chosen]
        axes.plot(x, by_class, "o", color=colour, mfc="white", label=f"{network}, mean over classes")
    names = [f"{draw},\n{prior}" for draw, prior in combinations]
    axes.set_xticks(range(len(combinations)), names, fontsize=7)
    axes.set_xlabel("labels drawn, prior", fontsize=8)
    axes.grid(True, axis="y", color="#dddddd", lw=0.5)


def _draw_changes(
    axes: Axes, shown: dict[Variant, np.ndarray], data: Dataset, networks: list[str], number: int
) -> None:
    frequency = np.bincount(data.y_train, minlength=len(data.class_names))
    for network in networks:
        uniform, natural = (
            np.mean([class_errors(counts) for counts in of_cell(shown, network, number, "per class", prior)], axis=0)
            for prior in PRIORS[:2]
        )
        axes.plot(frequency, natural - uniform, ".", ms=0)  # letters alone do not set the limits of the axes
        for x, y, name in zip(frequency, natural - uniform, data.class_names, strict=True):
            axes.text(x, y, name, color=NETWORK_COLOURS[network], fontsize=8, ha="center", va="center")
    axes.axhline(0, color="#999999", lw=0.8)
    axes.set_xscale("log")
    axes.minorticks_off()
    ticks = [tick for tick in (10, 20, 50, 100, 200, 300, 500, 1000, 2000, 4000) if frequency.min() <= tick * 1.1]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xlim(0.9 * frequency.min(), 1.1 * frequency.max())
    axes.set_xlabel("training points of the class", fontsize=8)
    axes.set_title("prior of the training set instead of a uniform one, labels drawn per class", fontsize=8)
    axes.grid(True, color="#eeeeee", lw=0.5)


if __name__ == "__main__":
    main()
