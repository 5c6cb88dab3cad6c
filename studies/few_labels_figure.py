"""Draws docs/few_labels.png: test error against labels per class, from kept records and lines.

    python studies/few_labels_figure.py

Small dots are draws of labels, lines connect means. `benchmarks/peer_table.py` lists the records.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from peer_table import SPREAD, lines_of_ours, read_lines  # noqa: E402

from nesi.report.published import published_experiment  # noqa: E402

PANELS = {  # data set -> title, classes, the paper's experiment and network, ours without spreading, most labels
    "mnist": ("MNIST", 10, "mnist", "ff+", "ff+-NeSi", 1000),
    "newsgroups20": ("20 Newsgroups", 20, "newsgroups20", "r", "r-NeSi", 800),
}
COLOURS = {SPREAD: "#0072B2", "without": "#56B4E9", "paper": "#555555", "Poisson MBO": "#D55E00"}


def main() -> None:
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), dpi=100, layout="constrained")
    for axis, (data, panel) in zip(axes, PANELS.items(), strict=True):
        draw_panel(axis, data, *panel)
    axes[0].set_ylabel("test error [%]")
    axes[0].legend(frameon=False, fontsize=8)
    figure.savefig(ROOT / "docs" / "few_labels.png")


def draw_panel(
    axis: Any, data: str, title: str, classes: int, experiment: str, network: str, plain: str, most: int
) -> None:
    ours = lines_of_ours(data)
    peers = read_lines(ROOT / "results" / "peers" / f"{data}.jsonl")
    for method, name, colour, shift in (
        (SPREAD, "ours, labels spread", COLOURS[SPREAD], 0.95),
        (plain, "ours, labels not spread", COLOURS["without"], 1.05),
        ("Poisson MBO", "Poisson MBO (sees test points)", COLOURS["Poisson MBO"], 1.12),
    ):
        lines = [line for line in [*ours, *peers] if line["method"] == method and 0 < line["labels"] <= most]
        if lines:
            plot(axis, lines, classes, name, colour, shift)
    published = published_experiment(experiment)
    assert published is not None
    cells = [cell for cell in published.cells if cell.network == network and 0 < cell.labels <= most]
    places = [cell.labels / classes for cell in cells]
    axis.plot(places, [cell.mean for cell in cells], "s--", color=COLOURS["paper"], ms=4, lw=1, label="the paper")
    axis.set(title=title, xlabel="labels per class", xscale="log", yscale="log")
    ticks = sorted(set(places))
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    errors = [3, 4, 6, 10, 20, 30] if data == "mnist" else [20, 25, 30, 40, 50, 70]
    axis.set_yticks(errors, [str(error) for error in errors])
    axis.spines[["top", "right"]].set_visible(False)


def plot(axis: Any, lines: Sequence[dict[str, Any]], classes: int, name: str, colour: str, shift: float) -> None:
    labels = sorted({line["labels"] for line in lines})
    errors = {count: [line["test_error"] for line in lines if line["labels"] == count] for count in labels}
    for count, values in errors.items():
        axis.plot(np.full(len(values), shift * count / classes), values, ".", color=colour, ms=4, alpha=0.35, mew=0)
    means = [np.mean(errors[count]) for count in labels]
    axis.plot([shift * count / classes for count in labels], means, "o-", color=colour, ms=4, lw=1.5, label=name)


if __name__ == "__main__":
    main()
