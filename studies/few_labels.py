"""Many draws of very few labels on the same first layers: how often does spreading fail?

    NESI_DATA=... python studies/few_labels.py params/mnist_few_labels.yaml --draws 50 --out few_labels.jsonl
    ... --set dataset=fashion-mnist experiment=fashion      the same network with other data

Runs of `run_experiment.py` spread the labels of one draw each. Here the first layers, their graph and its parts, which
depend on no label, are made once per seed, and the rest is done for every draw: many draws in little time. Draw 3
has the labels of run 3 of an experiment with the same seed.
Lines that the output file has already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from data_tools.loading import load
from nesi.config.reading import load_parameters, parse_assignment
from nesi.experiment.tasks import training_settings
from nesi.labels import draw_labels, mask_labels
from nesi.posteriors import class_given_unit, percent_error
from nesi.seeds import random_stream
from nesi.spreading.graph import graph_of_units
from nesi.spreading.spread import Spreading
from nesi.training.spreading import STEPS, taught_R
from nesi.training.trainer import Trainer


class FirstLayers(NamedTuple):
    """Activities of the training and test points, one row per point and member of the committee."""

    training: sp.csr_array
    test: sp.csr_array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parameters", type=Path, help="a parameter file with greedy: true and spread: units")
    parser.add_argument("--seeds", type=int, default=1, help="how many times to train first layers (default: 1)")
    parser.add_argument("--draws", type=int, default=50, help="of labels, for each seed and number of labels")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="changes to the parameter file")
    parser.add_argument("--out", type=Path, required=True, help="a line of JSON for every draw")
    parser.add_argument("--data-dir", type=Path)
    options = parser.parse_args()
    parameters = load_parameters(options.parameters, dict(parse_assignment(text) for text in options.set))
    data = load(parameters.dataset, options.data_dir)
    known = {line["key"] for line in read_lines(options.out)}
    for seed in range(1, options.seeds + 1):
        study = Study(parameters, data, seed, options.out.with_suffix(f".first-layers-{seed}.npz"))
        for labels in parameters.labels:
            for draw in range(1, options.draws + 1):
                key = f"seed {seed}, {labels} labels, draw {draw}"
                if key not in known:
                    line = {"key": key, "seed": seed, "labels": labels, "draw": draw, **study.draw(labels, draw)}
                    with options.out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
    print(table(read_lines(options.out)))


class Study:
    """All draws of labels for one training of the first layers."""

    def __init__(self, parameters: Any, data: Any, seed: int, cache: Path) -> None:
        self._parameters, self._data, self._seed = parameters, data, seed
        self._settings = training_settings(parameters, parameters.networks[0])
        self._n_classes = len(data.class_names)
        self._layers = load_layers(cache) if cache.exists() else self._train(cache)
        started = time.perf_counter()
        graph = graph_of_units(self._layers.training, self._settings.committee)
        shares = np.full(self._n_classes, 1 / self._n_classes)
        self._spreading = Spreading(graph, shares, STEPS, random_stream(seed, "spreading"))
        print(f"seed {seed}: graph and parts in {time.perf_counter() - started:.0f} s", flush=True)

    def _train(self, cache: Path) -> FirstLayers:
        unlabeled = np.full(len(self._data.y_train), -1)
        rng = random_stream(self._seed, "first layers")
        trainer = Trainer(self._settings, self._data.X_train, unlabeled, self._n_classes, rng)
        started = time.perf_counter()
        while trainer.phase == "first":
            info = trainer.run_iteration()
            if info.iteration % 10 == 0:
                print(f"seed {self._seed}: iteration {info.iteration}, {info.log_likelihood:.3f}", flush=True)
        network = trainer.trained()
        layers = FirstLayers(trainer.activities(), network.sparse_activities(self._data.X_test))
        print(f"seed {self._seed}: first layers in {time.perf_counter() - started:.0f} s", flush=True)
        save_layers(cache, layers)
        return layers

    def draw(self, n_labels: int, draw: int) -> dict[str, Any]:
        started = time.perf_counter()
        y = np.asarray(self._data.y_train)
        chosen = draw_labels(y, n_labels, random_stream(self._seed, "labels", self._data.name, n_labels, draw))
        spread = self._spreading.spread(mask_labels(y, chosen))
        R = taught_R(self._layers.training, spread, self._n_classes, self._settings.committee)
        per_member = self._layers.test @ class_given_unit(R).T
        posterior = per_member.reshape(-1, self._settings.committee, self._n_classes).mean(axis=1)
        seconds = round(time.perf_counter() - started, 2)
        error = percent_error(posterior, np.asarray(self._data.y_test))
        return {"test_error": error, "seconds": seconds, **spread.account("units")}


def save_layers(path: Path, layers: FirstLayers) -> None:
    arrays = {f"{name}.{part}": getattr(rows, part) for name, rows in layers._asdict().items() for part in _PARTS}
    np.savez(path, **arrays, n_units=np.asarray(layers.training.shape[1]))


def load_layers(path: Path) -> FirstLayers:
    with np.load(path) as file:
        rows = {name: [file[f"{name}.{part}"] for part in _PARTS] for name in FirstLayers._fields}
        n_units = int(file["n_units"])
    return FirstLayers(**{
        name: sp.csr_array(tuple(parts), shape=(len(parts[2]) - 1, n_units)) for name, parts in rows.items()
    })  # fmt: skip


_PARTS = ("data", "indices", "indptr")


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def table(lines: list[dict[str, Any]]) -> str:
    rows = ["| labels | draws | mean [%] | median | worst | above 6 % [% of draws] |", "|---|---|---|---|---|---|"]
    for labels in sorted({line["labels"] for line in lines}):
        errors = np.array([line["test_error"] for line in lines if line["labels"] == labels])
        failed = f"{100 * np.mean(errors > 6):.0f}"
        figures = [f"{value:.2f}" for value in (errors.mean(), np.median(errors), errors.max())]
        rows.append(f"| {labels} | {len(errors)} | {' | '.join([*figures, failed])} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
