"""Pictures of results: error against labels, training curves, confusion, tuning. Functions of numbers, no files."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from nesi.compare import Cell
from nesi.published import CompetingMethod, PublishedExperiment

# Distinguishable for colour-blind readers (Okabe and Ito).
NETWORK_COLOURS = {"ff": "#0072B2", "r": "#E69F00", "ff+": "#009E73", "r+": "#D55E00"}
MARKERS = {"ff": "o", "r": "s", "ff+": "^", "r+": "D"}
OTHER_MARKERS = ("v", "<", ">", "P", "X", "*", "h", "d", "p", "8")
GREY = "#777777"


def plain(text: str) -> str:
    """Words and class names are text, even with dollar signs, which matplotlib takes for formulas."""
    return text.replace("$", r"\$")


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, without pyplot's global state; `constrained` keeps labels from overlapping."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> None:
    from nesi.records import write_whole

    write_whole(path, lambda stream: figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None}))


def error_by_labels(
    cells: list[Cell], experiment: PublishedExperiment | None, competing: list[CompetingMethod], title: str
) -> Figure:
    """Test error against the number of labels: seen in training (left), and seen in tuning and training (right)."""
    with_tuning = experiment is not None and experiment.tuning_labels is not None
    figure = new_figure(12.5 if with_tuning else 7.0, 5.2)
    panels = figure.subplots(1, 2 if with_tuning else 1, sharey=True, squeeze=False)[0]
    networks = [name for name in NETWORK_COLOURS if any(cell.network == name for cell in cells)]
    # With fewer labels than tuned the parameters, a network has seen more labels than its setting says.
    tuning = (experiment.tuning_labels or 0) if experiment is not None else 0
    sizes = sorted({cell.C for cell in cells}, key=str)
    for axes, tuned in zip(panels, (False, True), strict=False):
        for network, size in itertools.product(networks, sizes):
            same = [cell for cell in cells if cell.network == network and size == cell.C]
            suffix = f", C = {size}" if len(sizes) > 1 else ""
            _draw_network(axes, network, same, experiment, tuning if tuned else 0, suffix)
        _draw_competing(axes, competing, tuned)
        axes.set_xlabel("labels seen in training" + (" and tuning" if tuned else ""))
        _log_axes(axes, cells)
    panels[0].set_ylabel("test error [%]")
    figure.suptitle(plain(title))
    entries = sorted(zip(*panels[0].get_legend_handles_labels(), strict=True), key=lambda entry: _rank(entry[1]))
    if entries:
        handles, names = zip(*entries, strict=True)
        figure.legend(handles, names, loc="outside right upper", fontsize=8, frameon=False)
    return figure


def _rank(name: str) -> int:
    """Ours first, then the paper's, then the others."""
    return 0 if name.endswith(", ours") else 1 if name.endswith(", paper") else 2


def _draw_network(
    axes: Axes, network: str, cells: list[Cell], experiment: PublishedExperiment | None, fewest: int, suffix: str
) -> None:
    colour, marker = NETWORK_COLOURS[network], MARKERS[network]
    ours = sorted((cell for cell in cells if cell.labels >= fewest), key=lambda cell: cell.labels)
    if not ours:
        return
    axes.errorbar(
        [cell.labels for cell in ours],
        [cell.mean for cell in ours],
        yerr=[cell.sem or 0.0 for cell in ours],
        color=colour,
        marker=marker,
        capsize=3,
        label=f"{network}-NeSi{suffix}, ours",
        zorder=3,
    )
    if experiment is None:
        return
    paper = sorted(
        (
            cell
            for cell in experiment.cells
            if cell.network == network and cell.class_assignment == "implicit" and cell.labels >= fewest
        ),
        key=lambda cell: cell.labels,
    )
    wanted = {(cell.labels, cell.published_mean) for cell in ours}
    sizes = {tuple(cell.where.items()) for cell in paper if (cell.labels, cell.mean) in wanted}
    if sizes:  # the same network at several sizes: only the curve that belongs to our runs
        paper = [cell for cell in paper if tuple(cell.where.items()) in sizes]
    x = [cell.labels for cell in paper]
    mean, sem = np.array([cell.mean for cell in paper]), np.array([cell.sem or 0.0 for cell in paper])
    if paper:
        axes.plot(
            x, mean, "--", color=colour, marker=marker, mfc="white", lw=1, ms=5, label=f"{network}-NeSi{suffix}, paper"
        )
        axes.fill_between(x, mean - sem, mean + sem, color=colour, alpha=0.15, lw=0)


def _draw_competing(axes: Axes, competing: list[CompetingMethod], tuned: bool) -> None:
    """Other methods in grey, named where their curve ends."""
    for number, method in enumerate(sorted({entry.method for entry in competing})):
        points = sorted((entry for entry in competing if entry.method == method), key=lambda entry: entry.labels)
        points = [entry for entry in points if not tuned or entry.tuning_labels is not None]
        if not points:
            continue
        x = [entry.labels + (entry.tuning_labels or 0 if tuned else 0) for entry in points]
        y = [entry.error for entry in points]
        marker = OTHER_MARKERS[number % len(OTHER_MARKERS)]
        axes.plot(x, y, ":", color=GREY, marker=marker, ms=5, lw=0.8, label=method, zorder=1)


def _log_axes(axes: Axes, cells: list[Cell]) -> None:
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = sorted({cell.labels for cell in cells})
    axes.grid(True, which="both", color="#dddddd", lw=0.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace(",", " ")))
    if len(ticks) > 1:
        axes.set_xticks(ticks)
        axes.tick_params(axis="x", labelrotation=35)
        axes.xaxis.set_minor_formatter(NullFormatter())
    low, high = axes.get_ylim()
    steps = (1, 2, 5) if high / max(low, 1e-9) > 12 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def training_curves(
    histories: list[dict[str, np.ndarray]], stopped_at: list[int | None], title: str, self_labeling: bool
) -> Figure:
    """Log-likelihood over iterations, with stopping points, self-labeling, and the test error if it was asked for."""
    figure = new_figure(7.0, 4.6 if self_labeling else 3.4)
    panels = figure.subplots(2 if self_labeling else 1, 1, sharex=True, squeeze=False)[:, 0]
    likelihood = panels[0]
    likelihood.set_title(plain(title), fontsize=10)
    likelihood.set_ylabel("log-likelihood / N")
    error_axes: Any = None
    for number, (history, stop) in enumerate(zip(histories, stopped_at, strict=True)):
        values = history.get("log_likelihood", np.zeros(0))
        iterations = np.arange(1, len(values) + 1)
        colour = f"C{number % 10}"
        likelihood.plot(iterations, values, "--" if len(history["test_error_curve"]) else "-", color=colour, lw=1)
        if stop is not None:
            for panel in panels:
                panel.axvline(stop, color=colour, lw=1)
        if len(history["test_error_curve"]):
            error_axes = error_axes or likelihood.twinx()
            error_axes.plot(*history["test_error_curve"].T, color=colour, lw=1.3)
            error_axes.set_ylabel("test error [%] (solid)")
        if self_labeling and "self_labeled" in history:
            panels[1].plot(iterations, 100 * history["self_labeled"], color=colour, lw=1)
    if self_labeling:
        panels[1].set_ylabel("self-labeled [%]")
        panels[1].set_ylim(-2, 102)
    panels[-1].set_xlabel("iteration")
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    for panel in panels:
        panel.grid(True, color="#dddddd", lw=0.5)
    likelihood.ticklabel_format(axis="y", useOffset=False)
    return figure


def confusion_matrix(counts: np.ndarray, class_names: list[str], title: str) -> Figure:
    """Rows: true class, columns: predicted class, in percent of the true class."""
    class_names = [plain(name) for name in class_names]
    classes = len(class_names)
    side = min(3.0 + 0.32 * classes, 11.0)
    figure = new_figure(side + 0.8, side)
    axes = figure.subplots()
    percent = 100.0 * counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(percent, cmap="Blues", vmin=0, vmax=100)
    if classes <= 20:
        for (row, column), value in np.ndenumerate(percent):
            if value >= 0.5:
                colour = "white" if value > 55 else "black"
                size = 8 if classes <= 10 else 6
                axes.text(column, row, f"{value:.0f}", ha="center", va="center", color=colour, fontsize=size)
    size = 8 if classes <= 26 else 5
    axes.set_xticks(range(classes), class_names, rotation=90 if _long(class_names) else 0, fontsize=size)
    axes.set_yticks(range(classes), class_names, fontsize=size)
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    axes.set_title(plain(title), fontsize=10)
    figure.colorbar(image, ax=axes, label="% of the true class", shrink=0.8)
    return figure


def search_picture(trials: list[dict[str, Any]], keys: list[str], best: dict[str, Any], title: str) -> Figure:
    """Validation error of every trial against each searched parameter; the chosen value is marked."""
    figure = new_figure(3.2 * max(len(keys), 1) + 0.6, 3.4)
    panels = figure.subplots(1, max(len(keys), 1), sharey=True, squeeze=False)[0]
    for axes, key in zip(panels, keys, strict=False):
        for network, colour in NETWORK_COLOURS.items():
            points = [
                (trial["values"][key], trial["error"])
                for trial in trials
                if trial["network"] == network and key in trial["values"]
            ]
            if points:
                axes.plot(*np.array(points, dtype=float).T, "o", ms=4, alpha=0.6, color=colour, label=f"{network}-NeSi")
        axes.axvline(float(best[key]), color="black", lw=1, ls=":", label="chosen")
        axes.set_xlabel(key)
        values = [float(trial["values"][key]) for trial in trials if key in trial["values"]]
        if values and min(values) > 0 and max(values) / min(values) > 5:
            axes.set_xscale("log")
        if len(set(values)) <= 10:  # a grid: its values are the ticks
            axes.set_xticks(
                sorted(set(values)), [f"{value:g}" for value in sorted(set(values))], rotation=45, fontsize=8
            )
            axes.minorticks_off()
        axes.grid(True, color="#dddddd", lw=0.5)
    panels[0].set_ylabel("validation error [%]")
    panels[0].legend(fontsize=7)
    figure.suptitle(plain(title), fontsize=10)
    return figure


def _long(names: list[str]) -> bool:
    return max(len(name) for name in names) > 2
