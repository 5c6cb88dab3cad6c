"""Pictures of runs: training curves, confusion, tuning. Numbers in, figures out; `save_figure` alone writes."""

import io
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nesi.storage.records import write_whole

_LONGEST_NAME = 28
# Distinguishable for colour-blind readers (Okabe and Ito).
NETWORK_COLOURS = {"ff": "#0072B2", "r": "#E69F00", "ff+": "#009E73", "r+": "#D55E00"}


def plain(text: str) -> str:
    """Words and class names are text, even with dollar signs, which matplotlib takes for formulas."""
    return text.replace("$", r"\$")


def short(name: str) -> str:
    """The same for a name that must leave room for what it names."""
    return plain(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def new_figure(width: float, height: float) -> Figure:
    """A figure of its own, without pyplot's global state; `constrained` keeps labels from overlapping."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_figure(figure: Figure, path: Path, dpi: int = 110) -> None:
    with warnings.catch_warnings():
        _without_advice_about_letters()
        write_whole(path, lambda stream: figure.savefig(stream, format="png", dpi=dpi, metadata={"Software": None}))


def as_svg(figure: Figure) -> bytes:
    """Sharp at any size; the same bytes whenever it is drawn."""
    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "nesi"}), warnings.catch_warnings():
        _without_advice_about_letters()
        figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def _without_advice_about_letters() -> None:
    """A name in a script that the font lacks is drawn as boxes; the page and the tables show it as it is."""
    warnings.filterwarnings("ignore", message=r"Glyph \d+ .* missing from", category=UserWarning)


def training_curves(
    histories: list[dict[str, np.ndarray]],
    stopped_at: list[int | None],
    title: str,
    self_labeling: bool,
    width: float = 7.0,
) -> Figure:
    """Log-likelihood over iterations, with stopping points, self-labeling, and the test error if it was asked for."""
    figure = new_figure(width, 4.6 if self_labeling else 3.4)
    panels = figure.subplots(2 if self_labeling else 1, 1, sharex=True, squeeze=False)[:, 0]
    likelihood = panels[0]
    if title:
        likelihood.set_title(plain(title), fontsize=10)
    likelihood.set_ylabel("log-likelihood / N")
    error_axes: Any = None
    for number, (history, stop) in enumerate(zip(histories, stopped_at, strict=True)):
        values = history.get("log_likelihood", np.zeros(0))
        iterations = np.arange(1, len(values) + 1)
        colour = f"C{number % 10}"
        line = "--" if len(history["test_error_curve"]) else "-"
        likelihood.plot(iterations, values, ls=line, marker="." if len(values) == 1 else "", color=colour, lw=1)
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
    panels[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    for panel in panels:
        panel.grid(True, color="#dddddd", lw=0.5)
    likelihood.ticklabel_format(axis="y", useOffset=False)
    return figure


def confusion_matrix(counts: np.ndarray, class_names: list[str], title: str) -> Figure:
    """Rows: true class, columns: predicted class, in percent of the true class."""
    class_names = [short(name) for name in class_names]
    classes = len(class_names)
    names = 0.09 * max(max(map(len, class_names)) - 4, 0)  # inches
    side = min(3.0 + 0.32 * classes + names, 11.0)
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


def most_confused(counts: np.ndarray, class_names: list[str], number: int = 5) -> str:
    """The pairs of classes that are confused most often, in words; empty if there is no error."""
    errors = counts - np.diag(np.diag(counts))
    pairs = [divmod(int(place), len(class_names)) for place in np.argsort(-errors, axis=None, kind="stable")[:number]]
    percent = 100.0 * errors / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return ", ".join(
        f"{class_names[true]} as {class_names[taken]} ({percent[true, taken]:.0f} % of {class_names[true]})"
        for true, taken in pairs
        if errors[true, taken]
    )


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
