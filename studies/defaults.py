"""Does `NeSiClassifier()` with nothing set do well? Against four methods with the same labels, on 13 data sets.

    NESI_DATA=... python studies/defaults.py                    # all lines that results/defaults does not have yet
    NESI_DATA=... python studies/defaults.py --points 3000      # with fewer training points: minutes instead of hours
    python studies/defaults.py --table                          # the table of the document

One line of JSON per data set, number of labels, draw of labels and method. The rule was decided on some data sets, so
marked, and is confirmed on the others.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import data_tools
from nesi import NeSiClassifier
from nesi.labels import draw_labels, mask_labels

PER_CLASS = (1, 5, 20)
MOST_TEST_POINTS = 5000


class Source(NamedTuple):
    """A data set: its name in data_tools or scikit-learn, how many training points are used, and what for."""

    data: Any
    points: int | None
    decided: bool = False  # the rule was decided on its training points


TABLES = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
SOURCES = {  # from cheap to dear
    "iris": Source("iris", None, decided=True),
    "wine": Source("wine", None, decided=True),
    "breast cancer": Source("breast cancer", None),
    "digits": Source("digits", None, decided=True),
    "vowels": Source("nist-vowels", None),
    "MNIST 6000": Source("mnist", 6000, decided=True),
    "OCR letters": Source("ocr-letters", 10000, decided=True),
    "Fashion-MNIST": Source("fashion-mnist", 10000),
    "20 Newsgroups, 6 classes": Source("newsgroups6", None),
    "20 Newsgroups": Source("newsgroups20", None, decided=True),
    "EMNIST digits": Source("emnist-part-digits", 10000),
    "EMNIST letters": Source("emnist-part-letters", 15000),
    "MNIST": Source("mnist", None),
}


class Problem(NamedTuple):
    X: Any
    y: np.ndarray
    X_test: Any
    y_test: np.ndarray


def load(name: str, most_points: int | None, data_dir: Path | None) -> Problem:
    """A fixed part of the training points, and at most 5000 test points; a third of a table is for testing."""
    source, rng = SOURCES[name], np.random.default_rng(0)
    if name in TABLES:
        X, y = TABLES[name](return_X_y=True)
        order = np.random.default_rng(1).permutation(len(y))  # the two thirds on which the rule was decided
        train, test = np.split(order, [2 * len(y) // 3])
        return Problem(X[train], y[train], X[test], y[test])
    data = data_tools.load(source.data, data_dir=data_dir)
    train = rng.permutation(len(data.y_train))[: source.points][:most_points]
    test = rng.permutation(len(data.y_test))[:MOST_TEST_POINTS]
    y, y_test = np.asarray(data.y_train), np.asarray(data.y_test)
    return Problem(data.X_train[train], y[train], data.X_test[test], y_test[test])


def prepared(problem: Problem) -> tuple[Any, Any]:
    """Inputs for the others: texts of length 1, columns of tables standardised, grey values between 0 and 1."""
    X, X_test = problem.X, problem.X_test
    if sp.issparse(X):
        return normalize(X), normalize(X_test)
    if X.shape[1] < 50 and X.dtype.kind == "f" and np.mean(X == 0) < 0.05:
        scaler = StandardScaler().fit(X)
        return scaler.transform(X), scaler.transform(X_test)
    return X / X.max(), X_test / X.max()


def logistic_regression(X: Any) -> LogisticRegression:
    return LogisticRegression(C=10.0 if sp.issparse(X) else 1.0, max_iter=300)


def by_nesi(problem: Problem, labels: np.ndarray, draw: int) -> tuple[np.ndarray, dict[str, Any]]:
    network = NeSiClassifier(random_state=draw).fit(problem.X, labels)
    chosen = {name: choice.value for name, choice in network.choices_.items()}
    return network.predict(problem.X_test), {"choices": chosen, "spread": network.spread_}


def by_others(make: Callable[[Any], Any], only_labeled: bool) -> Callable[..., tuple[np.ndarray, dict[str, Any]]]:
    def answer(problem: Problem, labels: np.ndarray, draw: int) -> tuple[np.ndarray, dict[str, Any]]:
        X, X_test = prepared(problem)
        known = labels >= 0 if only_labeled else slice(None)
        return make(X).fit(X[known], labels[known]).predict(X_test), {}

    return answer


METHODS: dict[str, Callable[..., tuple[np.ndarray, dict[str, Any]]]] = {
    "NeSi": by_nesi,
    "logistic regression": by_others(logistic_regression, only_labeled=True),
    "LabelSpreading": by_others(lambda X: LabelSpreading(kernel="knn", n_neighbors=7), only_labeled=False),
    "self-training": by_others(lambda X: SelfTrainingClassifier(logistic_regression(X)), only_labeled=False),
    "1-NN": by_others(lambda X: KNeighborsClassifier(1), only_labeled=True),
}


def one_line(name: str, problem: Problem, n_labels: int, draw: int, method: str) -> dict[str, Any]:
    started = time.process_time()
    chosen = draw_labels(problem.y, n_labels, np.random.default_rng(np.random.SeedSequence([draw, n_labels])))
    found, more = METHODS[method](problem, mask_labels(problem.y, chosen), draw)
    error = 100 * float(np.mean(found != problem.y_test))
    line = {"set": name, "points": len(problem.y), "labels": n_labels, "draw": draw, "method": method}
    line["error"] = round(error, 3)
    return line | {"cpu_seconds": round(time.process_time() - started, 1), **more}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def run(names: list[str], draws: list[int], most_points: int | None, out: Path, data_dir: Path | None) -> None:
    """Draw by draw, from cheap to dear data sets; lines that are there already are not made again."""
    key = ("set", "points", "labels", "draw", "method")
    done = {tuple(line[part] for part in key) for line in read_lines(out)}
    out.parent.mkdir(parents=True, exist_ok=True)
    for draw in draws:
        for name in names:
            problem = None
            for per_class in PER_CLASS:
                for method in METHODS:
                    problem = problem or load(name, most_points, data_dir)
                    n_labels = per_class * len(np.unique(problem.y))
                    if (name, len(problem.y), n_labels, draw, method) in done:
                        continue
                    line = one_line(name, problem, n_labels, draw, method)
                    with out.open("a", encoding="utf-8") as file:
                        file.write(json.dumps(line) + "\n")
                    print(f"{name}, {n_labels} labels, draw {draw}, {method}: {line['error']:.1f} %", flush=True)


def table(lines: list[dict[str, Any]]) -> str:
    """Mean test errors of the draws that all methods have, and mean ranks over the rows."""
    errors: dict[tuple[str, int, int], dict[int, dict[str, float]]] = {}
    for line in lines:
        errors.setdefault((line["set"], line["points"], line["labels"]), {}).setdefault(line["draw"], {})[
            line["method"]
        ] = line["error"]
    rows = ["| data | points | labels | draws | " + " | ".join(METHODS) + " |", "|" + "---|" * (len(METHODS) + 4)]
    ranks: dict[bool, list[np.ndarray]] = {True: [], False: []}
    for name, source in SOURCES.items():
        for (found, points, labels), draws in sorted(errors.items()):
            complete = [draw for draw in draws.values() if len(draw) == len(METHODS)]
            if found != name or not complete:
                continue
            means = np.array([np.mean([draw[method] for draw in complete]) for method in METHODS])
            ranks[source.decided].append(_ranks(means))
            cells = [f"**{mean:.1f}**" if mean == means.min() else f"{mean:.1f}" for mean in means]
            mark = " (decided)" if source.decided else ""
            rows.append(f"| {name}{mark} | {points} | {labels} | {len(complete)} | {' | '.join(cells)} |")
    for title, chosen in (
        ("mean rank, decided", ranks[True]),
        ("mean rank, confirmed", ranks[False]),
        ("mean rank, all", ranks[True] + ranks[False]),
    ):
        if chosen:
            means = " | ".join(f"{rank:.2f}" for rank in np.mean(chosen, axis=0))
            rows.append(f"| {title} | | | {len(chosen)} rows | {means} |")
    return "\n".join(rows)


def _ranks(values: np.ndarray) -> np.ndarray:
    """1 for the lowest; equals share their places."""
    return np.array([np.mean(np.flatnonzero(np.sort(values) == value)) + 1 for value in values])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", choices=list(SOURCES), default=list(SOURCES), help="which data sets")
    parser.add_argument("--draws", type=int, default=3, help="draws of labels (default: 3)")
    parser.add_argument("--points", type=int, help="the most training points to take of each data set")
    parser.add_argument("--out", type=Path, default=Path("results/defaults/lines.jsonl"))
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    if not options.table:
        warnings.simplefilter("ignore")
        with threadpool_limits(limits=options.threads):
            run(options.sets, list(range(1, options.draws + 1)), options.points, options.out, options.data_dir)
    print(table(read_lines(options.out)))


if __name__ == "__main__":
    main()
