"""Which number, known without further labels, tells a run that is lost from one that is not?

    NESI_DATA=... python studies/lost.py --out results/few_labels/lost.jsonl
    python studies/lost.py --out results/few_labels/lost.jsonl --table

On several data sets (never MNIST) a part of the training points is learned from with very few labels, many draws of
them; beside what is known of each run stands its error on the points whose labels were hidden. Lines that are there are
not computed again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from few_labels import read_lines

import data_tools
from nesi.labels import draw_labels, mask_labels
from nesi.seeds import random_stream
from nesi.spreading.graph import graph_of_neighbours, graph_of_units
from nesi.spreading.spread import WAYS, Spreading
from nesi.training.settings import TrainingSettings
from nesi.training.spreading import STEPS
from nesi.training.trainer import Trainer

DATA = ("digits", "emnist-part-digits", "fashion-mnist", "ocr-letters", "emnist-part-letters", "newsgroups20")
POINTS, UNITS, COMMITTEE = 8000, 1000, 2
LABELS_PER_CLASS = (1, 2, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", default=list(DATA))
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--table", action="store_true", help="only print the table of what is there")
    options = parser.parse_args()
    if not options.table:
        known = {line["key"] for line in read_lines(options.out)}
        for name in options.data:
            for line in runs(name, options.draws, known):
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
    print(table(read_lines(options.out)))


def runs(name: str, draws: int, known: set[str]) -> Any:
    data = data_tools.load(name)
    chosen = random_stream(1, "points", name).permutation(len(data.y_train))[:POINTS]
    X, y, n_classes = data.X_train[chosen], np.asarray(data.y_train)[chosen], len(data.class_names)
    keys = {
        f"{name}, {each} per class, draw {draw}": (each, draw)
        for each in LABELS_PER_CLASS
        for draw in range(1, draws + 1)
    }
    if set(keys) <= known:
        return
    over = "points" if name == "newsgroups20" else "units"
    graph = graph_of_neighbours(X) if over == "points" else graph_of_units(activities(X, n_classes), COMMITTEE)
    spreading = Spreading(graph, np.full(n_classes, 1 / n_classes), STEPS, random_stream(1, "spreading", name))
    for key, (each, draw) in keys.items():
        if key in known:
            continue
        labels = mask_labels(y, draw_labels(y, each * n_classes, random_stream(1, "labels", name, each, draw)))
        hidden = labels < 0
        spread = spreading.spread(labels)
        errors = {way: 100 * float(np.mean(spreading.classes(way, labels)[hidden] != y[hidden])) for way in WAYS}
        yield {
            "key": key,
            "data": name,
            "per_class": each,
            "draw": draw,
            "error": errors[spread.way],
            "errors": errors,
            **spread.account(over),
        }


def activities(X: Any, n_classes: int) -> Any:
    settings = TrainingSettings(
        network="ff",
        C=min(UNITS, len(X) // 4),
        A=1.15 * X.shape[1],
        committee=COMMITTEE,
        greedy=True,
        inference="truncated",
        minibatch_rule="sequential",
        iterations=40,
        spread="units",
    )
    unlabeled = np.full(X.shape[0], -1)
    trainer = Trainer(settings, X, unlabeled, n_classes, random_stream(1, "first layers"))
    while trainer.phase == "first":
        trainer.run_iteration()
    return trainer.activities()


def table(lines: list[dict[str, Any]]) -> str:
    rows = ["| data | labels per class | runs | error [%] | taken | parts | balanced | walk | energy | doubt |"]
    rows.append("|" + "---|" * 10)
    for name in DATA:
        for each in LABELS_PER_CLASS:
            some = [line for line in lines if line["data"] == name and line["per_class"] == each]
            if some:
                ways = [np.mean([line["errors"][way] for line in some]) for way in WAYS]
                taken = ", ".join(sorted({line["way"] for line in some}))
                mean = np.mean([line["error"] for line in some])
                numbers = [np.mean([line[key] for line in some]) for key in ("energy", "doubt")]
                figures = " | ".join(f"{value:.1f}" for value in ways)
                beginning = f"| {name} | {each} | {len(some)} | {mean:.1f} | {taken} | {figures}"
                rows.append(f"{beginning} | {numbers[0]:.3f} | {numbers[1]:.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
