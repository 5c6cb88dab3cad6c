"""Other semi-supervised classifiers with the same very few labels, on the data of our studies.

    pip install 'nesi[peers]'
    NESI_DATA=... python benchmarks/peers.py [--data mnist ...] [--draws 10] [--only NAME ...] [--out results/peers]
    python benchmarks/peers.py --table

Draw 3 of 100 labels has the labels of run 3 of our experiments with 100 labels, so that ours in the table (records and
lines in `results/`) and theirs are compared label by label. Every method is used as its documentation suggests, without
tuning on labels that it does not have. Every draw is a line of JSON, written when it is done; what is there is not
computed again. The graph of a data set is made once and shared by all draws.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
from peer_methods import METHODS, Points
from peer_table import read_lines, table

import data_tools
from nesi.labels import draw_labels, mask_labels
from nesi.seeds import random_stream

LABELS = {
    "mnist": (10, 100),
    "newsgroups20": (20, 40, 200, 800),
    "fashion-mnist": (10, 100),
    "emnist-part-letters": (52, 520),
    "emnist-part-digits": (10, 100),
}
SEED = 1  # of our experiments
SLOW_DRAWS = 3  # of methods that take minutes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", nargs="+", choices=list(LABELS), default=list(LABELS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=list(METHODS), default=list(METHODS), help="methods")
    parser.add_argument("--out", type=Path, default=Path("results/peers"), help="a file of lines for each data set")
    parser.add_argument("--table", action="store_true", help="print the table of what is there, and of ours")
    options = parser.parse_args()
    if options.table:
        transductive = {name: method.transductive for name, method in METHODS.items()}
        print(table(options.out, LABELS, transductive, options.draws))
        return
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.data:
        compare(name, options.draws, options.only, options.out / f"{name}.jsonl")


def compare(name: str, draws: int, methods: list[str], path: Path) -> None:
    done = {(line["method"], line["labels"], line["draw"]) for line in read_lines(path)}
    data = data_tools.load(name)
    points = Points(data.X_train, data.X_test, len(data.class_names))
    for draw in range(1, draws + 1):
        for n_labels in LABELS[name]:
            chosen = draw_labels(data.y_train, n_labels, random_stream(SEED, "labels", data.name, n_labels, draw))
            labels = mask_labels(data.y_train, chosen)
            for method in methods:
                if (method, n_labels, draw) in done or (METHODS[method].slow and draw > SLOW_DRAWS):
                    continue
                METHODS[method].prepare(points)
                started = time.perf_counter()
                predicted = METHODS[method].predict(points, labels)
                seconds = round(time.perf_counter() - started, 2)
                error = 100 * float(np.mean(predicted != data.y_test))
                line = {"data": name, "method": method, "labels": n_labels, "draw": draw}
                with path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line | {"test_error": error, "seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
