"""The table of `peers.py`: theirs from its lines, ours from kept records and lines, on the same draws of labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent.parent / "results"
SPREAD = "NeSi, labels spread"
#: Data set -> what we call ours -> where its draws are kept, and of which network.
OURS: dict[str, dict[str, tuple[str, str | None]]] = {
    "mnist": {
        SPREAD: ("few_labels/mnist.jsonl", None),
        "ff+-NeSi": ("mnist/records.jsonl", "ff+"),
        "r+-NeSi": ("mnist/records.jsonl", "r+"),
    },
    "emnist-part-digits": {
        SPREAD: ("few_labels/emnist_digits.jsonl", None),
        "ff+-NeSi": ("emnist_digits/records.jsonl", "ff+"),
    },
    "emnist-part-letters": {
        SPREAD: ("few_labels/emnist_letters.jsonl", None),
        "ff+-NeSi": ("emnist_letters/records.jsonl", "ff+"),
    },
    "fashion-mnist": {SPREAD: ("few_labels/fashion.jsonl", None)},
    "newsgroups20": {
        SPREAD: ("newsgroups20_few_labels/records.jsonl", "r"),
        "ff-NeSi": ("newsgroups20/records.jsonl", "ff"),
        "r-NeSi": ("newsgroups20/records.jsonl", "r"),
    },
}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def lines_of_ours(data: str, draws: int | None = None) -> list[dict[str, Any]]:
    """In the form of the peers' lines; of one training of first layers, that with the seed of the peers' draws."""
    found = []
    for method, (path, network) in OURS[data].items():
        for line in read_lines(RESULTS / path):
            draw = line["run"] if "run" in line else line["draw"]
            if line["seed"] == 1 and line.get("network") == network and (draws is None or draw <= draws):
                common = {key: line[key] for key in ("labels", "test_error", "seconds")}
                found.append({"data": data, "method": method, "draw": draw, **common})
    return found


def table(folder: Path, labels: dict[str, tuple[int, ...]], transductive: dict[str, bool], draws: int) -> str:
    """Best mean first; the time of ours is that of a whole run in records, and without first layers in lines."""
    rows = [
        "| data | labels | method | test points seen | draws | mean [%] | worst | s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for data, counts in labels.items():
        lines = [*lines_of_ours(data, draws), *read_lines(folder / f"{data}.jsonl")]
        for count in counts:
            here = [line for line in lines if line["labels"] == count]
            of_method = {m: [line for line in here if line["method"] == m] for m in {line["method"] for line in here}}
            for method in sorted(of_method, key=lambda m: np.mean([line["test_error"] for line in of_method[m]])):
                errors = np.array([line["test_error"] for line in of_method[method]])
                seconds = np.median([line["seconds"] for line in of_method[method]])
                sem = f" ± {errors.std(ddof=1) / np.sqrt(len(errors)):.2f}" if len(errors) > 1 else ""
                seen = "yes" if transductive.get(method) else "no"
                figures = f"{errors.mean():.2f}{sem} | {errors.max():.2f} | {seconds:.0f}"
                rows.append(f"| {data} | {count} | {method} | {seen} | {len(errors)} | {figures} |")
    return "\n".join(rows)
