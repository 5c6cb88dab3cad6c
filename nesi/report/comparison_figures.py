"""Pictures that set ours beside the paper and other methods: error against labels, and bars. Functions of numbers."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from nesi.report.comparison import Cell
from nesi.report.deviations import THE_PAPERS
from nesi.report.figures import NETWORK_COLOURS, new_figure, plain
from nesi.report.published import CompetingMethod, PublishedExperiment

MARKERS = {"ff": "o", "r": "s", "ff+": "^", "r+": "D"}
OTHER_MARKERS = ("v", "<", ">", "P", "X", "*", "h", "d", "p", "8")
GREY = "#777777"


def error_by_labels(
    cells: list[Cell],
    experiment: PublishedExperiment | None,
    competing: list[CompetingMethod],
    title: str,
    narrow: bool = False,
) -> Figure:
    """Test error against the number of labels: seen in training, and beside it, seen in tuning and training.

    One panel where they would be the same: nobody is known to have tuned with more labels than these. A `narrow` figure
    has its panels and the legend below each other.
    """
    # With fewer labels than tuned the parameters, a network has seen more labels than its setting says.
    tuning = (experiment.tuning_labels or 0) if experiment is not None else 0
    stated = experiment is not None and experiment.tuning_labels is not None
    beside = [entry for entry in competing if tuning or entry.tuning_labels is not None]
    with_tuning = stated and (bool(beside) or any(cell.labels < tuning for cell in cells))
    longer_names = experiment is not None and experiment.another_part_of is not None  # in the legend
    networks = [name for name in NETWORK_COLOURS if any(cell.network == name for cell in cells)]
    number = 2 if with_tuning else 1
    if narrow:
        figure = new_figure(5.6, 3.6 * number + 0.35 * len(networks) + 0.1 * len({entry.method for entry in competing}))
        panels = figure.subplots(number, 1, squeeze=False)[:, 0]
    else:
        figure = new_figure(12.5 if with_tuning else 9.5 if longer_names else 7.0, 5.2)
        panels = figure.subplots(1, number, sharey=True, squeeze=False)[0]
    sizes = sorted({cell.C for cell in cells}, key=str)
    for axes, tuned in zip(panels, (False, True), strict=False):
        for network, size in itertools.product(networks, sizes):
            same = [cell for cell in cells if cell.network == network and size == cell.C]
            suffix = f", C = {size}" if len(sizes) > 1 else ""
            _draw_network(axes, network, same, experiment, tuning if tuned else 0, suffix)
        _draw_competing(axes, competing, tuned)
        bounds = tuned and any(entry.tuning_labels_at_least for entry in competing)
        axes.set_xlabel(
            "labels seen in training" + (" and tuning" if tuned else "") + (" (→ at least)" if bounds else "")
        )
        _log_axes(axes, cells)
    for axes in panels if narrow else panels[:1]:
        axes.set_ylabel("test error [%]")
    if narrow:
        pass  # the page has a heading
    elif len(panels) == 1:
        panels[0].set_title(plain(title))  # not above the legend, which may be wide
    else:
        figure.suptitle(plain(title))
    entries = sorted(zip(*panels[0].get_legend_handles_labels(), strict=True), key=lambda entry: _rank(entry[1]))
    if entries:
        handles, names = zip(*entries, strict=True)
        place: dict[str, Any] = {"loc": "outside lower left", "ncols": 1 if longer_names else 2} if narrow else {}
        figure.legend(handles, names, **({"loc": "outside right upper"} | place), fontsize=8, frameon=False)
    return figure


def _made_by(cells: list[Cell]) -> str:
    """Whether a curve is the paper's algorithm: said only where the paper has something to compare it with."""
    compared = [cell for cell in cells if cell.published_mean is not None]
    if not compared:
        return ""
    kinds = list(dict.fromkeys(cell.algorithm for cell in compared))
    return f" ({' and '.join(kinds)})" if kinds != [THE_PAPERS] else " (the paper's algorithm)"


def _rank(name: str) -> int:
    """Ours first, then the paper's, then the others."""
    return 0 if ", ours" in name else 1 if ", paper" in name else 2


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
        label=f"{network}-NeSi{suffix}, ours{_made_by(ours)}",
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
    theirs = "" if experiment.another_part_of is None else f" (its own data, {experiment.train} points)"
    x = [cell.labels for cell in paper]
    mean, sem = np.array([cell.mean for cell in paper]), np.array([cell.sem or 0.0 for cell in paper])
    if paper:
        label = f"{network}-NeSi{suffix}, paper{theirs}"
        axes.plot(x, mean, "--", color=colour, marker=marker, mfc="white", lw=1, ms=5, label=label)
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
        if tuned and any(entry.tuning_labels_at_least for entry in points):  # a bound: there may be more of them
            for place, error in zip(x, y, strict=True):
                axes.annotate("", (2 * place, error), (place, error), arrowprops={"arrowstyle": "->", "color": GREY})


def _log_axes(axes: Axes, cells: list[Cell]) -> None:
    axes.set_xscale("log")
    if all(cell.mean > 0 for cell in cells):  # no error at all has no place on a logarithmic axis
        axes.set_yscale("log")
    ticks = sorted({cell.labels for cell in cells})
    axes.grid(True, which="both", color="#dddddd", lw=0.5)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}".replace(",", " ")))
    if len(ticks) > 1:
        axes.set_xticks(ticks)
        if len(ticks) > 3:
            axes.tick_params(axis="x", labelrotation=35)
        axes.xaxis.set_minor_formatter(NullFormatter())
    if axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)
        return
    low, high = axes.get_ylim()
    steps = (1, 2, 5) if high / max(low, 1e-9) > 12 else (1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9)
    axes.yaxis.set_major_locator(LogLocator(subs=steps))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def methods_as_bars(
    cells: list[Cell],
    competing: list[CompetingMethod],
    tunable: Sequence[dict[str, str]],
    title: str,
    narrow: bool = False,
) -> Figure | None:
    """Ours among other methods, a panel per number of labels, and how many parameters each method has to be told.

    None if no other method has a number for one of our numbers of labels. A `narrow` figure has two panels a line.
    """
    known = {entry.labels for entry in competing}
    numbers = sorted({cell.labels for cell in cells} & known)
    if not numbers:
        return None
    panels_wanted = len(numbers) + bool(tunable)
    most = max(len(tunable), *(len(_bars(cells, competing, labels)) for labels in numbers))
    columns = min(2, panels_wanted) if narrow else panels_wanted
    lines = -(-panels_wanted // columns)
    figure = new_figure(2.9 * columns + 0.5, lines * (0.24 * most + 0.9) + 0.4)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes in panels[panels_wanted:]:
        axes.set_axis_off()
    panels = panels[:panels_wanted]
    for axes, labels in zip(panels, numbers, strict=False):
        bars = _bars(cells, competing, labels)
        colours = [NETWORK_COLOURS.get(name.partition("-NeSi")[0], GREY) for name, _ in bars]
        _draw_bars(axes, bars, colours, [f"{error:.2f}" for _, error in bars])
        axes.set_title(f"{labels} labels", fontsize=9)
        axes.set_xlabel("test error [%]", fontsize=8)
    if tunable:
        counts = [(entry["method"], float(re.findall(r"\d+", entry["count"])[-1])) for entry in reversed(tunable)]
        colours = ["black" if name == "NeSi" else GREY for name, _ in counts]
        _draw_bars(panels[-1], counts, colours, [entry["count"].replace(">=", "≥ ") for entry in reversed(tunable)])
        panels[-1].set_title("parameters to choose", fontsize=9)
    if not narrow:
        figure.suptitle(plain(title), fontsize=10)
    return figure


def _bars(cells: list[Cell], competing: list[CompetingMethod], labels: int) -> list[tuple[str, float]]:
    """Names and errors, the lowest error last, which is the top of the picture."""
    here = [cell for cell in cells if cell.labels == labels]
    several_sizes = len({cell.C for cell in here}) > 1
    ours = [(f"{cell.network}-NeSi" + (f", C = {cell.C}" if several_sizes else ""), cell.mean) for cell in here]
    others = [(entry.method, entry.error) for entry in competing if entry.labels == labels]
    return sorted(ours + others, key=lambda bar: -bar[1])


def _draw_bars(axes: Axes, bars: list[tuple[str, float]], colours: list[str], texts: list[str]) -> None:
    names, lengths = zip(*bars, strict=True)
    drawn = axes.barh(range(len(bars)), lengths, color=colours, height=0.7)
    axes.bar_label(drawn, texts, padding=2, fontsize=7)
    axes.set_yticks(range(len(bars)), [plain(name) for name in names], fontsize=8)
    axes.set_xlim(0, 1.22 * max(lengths))
    axes.tick_params(axis="x", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
