"""Pictures of what a network has learned: fields of images with their class columns, strongest words of text."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nesi.fields.pruning import FORGOTTEN, SINGLE_POINT, unit_usage
from nesi.fields.shown import SHOWN_UNITS, choose_units
from nesi.report.figures import new_figure, plain, short

INKS = {"black": (0.0, 0.0, 0.0), "blue": (0.05, 0.25, 0.85), "red": (0.85, 0.08, 0.08)}
SHOWN_WORDS = 20


def unit_colours(usage: np.ndarray) -> list[str]:
    return ["blue" if value < FORGOTTEN else "red" if value < SINGLE_POINT else "black" for value in usage]


def learned_fields(
    W: np.ndarray, R: np.ndarray, image_shape: tuple[int, int], class_names: list[str], n_train: int, title: str
) -> Figure:
    """Fields as images with p(class) as a column beside each, first class on top; ink says how much they are used."""
    units = choose_units(R, SHOWN_UNITS)
    usage = unit_usage(R, n_train)
    columns = int(np.ceil(np.sqrt(len(units))))
    lines = int(np.ceil(len(units) / columns))
    tiles = [_tile(W[unit], R[:, unit], image_shape, unit_colours(usage[[unit]])[0]) for unit in units]
    height, width = tiles[0].shape[:2]
    sheet = np.ones((lines * height, columns * width, 3))
    for number, tile in enumerate(tiles):
        row, column = divmod(number, columns)
        sheet[row * height : (row + 1) * height, column * width : (column + 1) * width] = tile
    figure = new_figure(8.0, 8.0 * lines * height / (columns * width) + 0.9)
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest")
    axes.set_axis_off()
    axes.set_title(plain(title), fontsize=10)
    colours = np.array(unit_colours(usage))
    share = {name: 100.0 * np.mean(colours == name) for name in INKS}
    handles = [
        Patch(color=INKS["black"], label=f"p(c|R) N ≥ {SINGLE_POINT} ({share['black']:.0f} % of all units)"),
        Patch(color=INKS["red"], label=f"< {SINGLE_POINT}: one point ({share['red']:.0f} %)"),
        Patch(color=INKS["blue"], label=f"< {FORGOTTEN}: forgotten ({share['blue']:.0f} %)"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    first, last = short(class_names[0]), short(class_names[-1])
    axes.text(
        0.5,
        -0.01,
        f"class columns: {first} (top) to {last} (bottom)",
        transform=axes.transAxes,
        ha="center",
        va="top",
        fontsize=8,
    )
    return figure


def _tile(field: np.ndarray, classes: np.ndarray, image_shape: tuple[int, int], colour: str) -> np.ndarray:
    """One field with its class column, enlarged so that both have about the same height."""
    zoom = max(1, round(56 / max(image_shape)))
    image = np.kron(_unit_range(field.reshape(image_shape)), np.ones((zoom, zoom)))
    height = image.shape[0]
    class_of_row = np.arange(height) * len(classes) // height
    column = np.tile((classes / max(classes.max(), 1e-30))[class_of_row][:, None], (1, max(4, height // 9)))
    ink = np.zeros((height + 6, image.shape[1] + column.shape[1] + 8))
    ink[:] = 0.12  # the frame
    ink[2:-4, 2 : 2 + image.shape[1]] = image
    ink[2:-4, 4 + image.shape[1] : 4 + image.shape[1] + column.shape[1]] = column
    ink[-2:, :] = ink[:, -2:] = 0.0  # white gap to the neighbours
    return 1.0 - ink[:, :, None] * (1.0 - np.array(INKS[colour]))


def _unit_range(values: np.ndarray) -> np.ndarray:
    low, high = float(values.min()), float(values.max())
    return (values - low) / (high - low) if high > low else np.zeros_like(values)


def strongest_words(
    W: np.ndarray, R: np.ndarray, vocabulary: list[str], class_names: list[str], title: str, count: int = SHOWN_WORDS
) -> Figure:
    """For up to 20 units the words with the largest weights, relative to the strongest, and the class of the unit."""
    units = choose_units(R, 20)
    columns = min(5, len(units))
    lines = int(np.ceil(len(units) / columns))
    figure = new_figure(3.0 * columns, 3.1 * lines + 0.5)
    panels = figure.subplots(lines, columns, squeeze=False).ravel()
    for axes, unit in zip(panels, units, strict=False):
        strength = W[unit] - W[unit].min()  # without the background
        words = np.argsort(strength)[::-1][:count]
        relative = strength[words] / max(float(strength[words[0]]), 1e-30)
        axes.barh(np.arange(len(words)), relative, color="#0072B2", height=0.75)
        axes.set_yticks(np.arange(len(words)), [plain(vocabulary[word][:18]) for word in words], fontsize=6)
        axes.invert_yaxis()
        axes.set_xticks([])
        best = int(np.argmax(R[:, unit]))
        certainty = 100 * R[best, unit] / max(float(R[:, unit].sum()), 1e-30)
        axes.set_title(
            f"{short(class_names[best])}\np(k|c) = {certainty:.0f} %, p(c|k) = {100 * R[best, unit]:.0f} %", fontsize=8
        )
        beside = axes.inset_axes((1.02, 0.0, 0.06, 1.0))
        beside.imshow(R[:, [unit]], cmap="Greys", aspect="auto", vmin=0, vmax=max(float(R[:, unit].max()), 1e-30))
        beside.set_xticks([])
        beside.set_yticks([])
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    for axes in panels[len(units) :]:
        axes.set_axis_off()
    figure.suptitle(plain(title), fontsize=10)
    return figure


def strongest_inputs(W: np.ndarray, R: np.ndarray, class_names: list[str], title: str) -> Figure:
    """For data that is neither image nor text: the words are the numbers of the inputs."""
    return strongest_words(W, R, [f"input {number}" for number in range(W.shape[1])], class_names, title)
