"""Cells as tables, for the terminal and for documents."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from string import ascii_lowercase
from typing import Any

from nesi.errors import NesiError
from nesi.report.comparison import (
    BETTER,
    FEWEST_RUNS,
    OTHER_DATA,
    TELLING,
    WITHIN_NOISE,
    WORSE,
    Cell,
    interval_of_a_small_test,
)
from nesi.report.published import published, published_experiment
from nesi.storage.records import write_text

SHOWABLE: dict[str, Callable[[Cell], str]] = {
    "log_likelihood": lambda cell: f"{cell.mean_log_likelihood:.2f}",
    "seconds": lambda cell: f"{cell.mean_seconds:.0f}",
}


def rows(cells: list[Cell], show: Sequence[str] = ()) -> list[list[str]]:
    """The table, as text: header first. `show` asks for more columns, of those in SHOWABLE."""
    several = len({cell.experiment for cell in cells}) > 1
    telling, marks = _telling_settings(cells), _marks(cells)
    more = [name.replace("_", "-") for name in show]
    compared, judged = any_published(cells), any(cell.difference is not None for cell in cells)
    ended_early = compared and any("tolerance" in cell.differs_from_paper for cell in cells)
    table = [
        [
            *(["experiment"] if several else []),
            *("network", "labels", *telling, *(["iterations"] if ended_early else []), "ours [%]", *more),
            *(["paper [%]", *(["difference", "z", "verdict"] if judged else ["remark"])] if compared else []),
        ]
    ]
    for cell in cells:
        row = [
            *([cell.experiment] if several else []),
            cell.network,
            str(cell.labels) if cell.fields is None else f"{cell.fields} fields",
            *(_shown(cell.settings.get(key)) for key in telling),
            *([_span(cell.iterations)] if ended_early else []),
            f"{_with_sem(cell.mean, cell.sem)} ({cell.runs})",
            *(SHOWABLE[name](cell) for name in show),
        ]
        table.append(row + (_against_the_paper(cell, marks, judged) if compared else []))
    return table


def any_published(cells: list[Cell]) -> bool:
    return any(cell.published_mean is not None for cell in cells)


def _marks(cells: list[Cell]) -> dict[tuple[str, ...], str]:
    """A letter for each way in which cells differ from the paper, in the order of the table."""
    ways = dict.fromkeys(tuple(cell.deviations) for cell in cells if cell.deviations)
    letters = (first + second for first in ("", *ascii_lowercase) for second in ascii_lowercase)
    return dict(zip(ways, letters, strict=False))


def _shown_verdict(cell: Cell, marks: dict[tuple[str, ...], str]) -> str:
    if not cell.deviations:
        return cell.verdict
    return f"{cell.verdict}, {cell.algorithm} ({marks[tuple(cell.deviations)]})"


def _against_the_paper(cell: Cell, marks: dict[tuple[str, ...], str], judged: bool) -> list[str]:
    paper = "-"
    if cell.published_mean is not None:
        count = f" ({cell.published_runs})" if cell.published_runs else ""
        paper = _with_sem(cell.published_mean, cell.published_sem) + count
        if cell.published_also:
            paper += f" / {_with_sem(cell.published_also['mean'], cell.published_also.get('sem'))}"
    difference = "-" if cell.difference is None else f"{cell.difference:+.2f}"
    z = "-" if cell.z is None else f"{cell.z:+.1f}"
    return [paper, *([difference, z] if judged else []), _shown_verdict(cell, marks)]


def _telling_settings(cells: list[Cell]) -> list[str]:
    """The settings by which cells of the same network and number of labels differ."""
    twins: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        twins.setdefault((cell.experiment, cell.dataset, cell.network, cell.labels, cell.fields), []).append(cell)
    return [
        key
        for key in TELLING
        if any(len({_shown(cell.settings.get(key)) for cell in same}) > 1 for same in twins.values())
    ]


def _span(numbers: list[int]) -> str:
    return "-".join(str(number) for number in dict.fromkeys(numbers))


def _shown(setting: Any) -> str:
    return "-" if setting is None else f"{setting:g}" if isinstance(setting, float) else str(setting)


def footnotes(cells: list[Cell], intervals: bool = True) -> list[str]:
    """What a reader of the table has to know; without `intervals` if the table has them."""
    notes = _count_of_verdicts(cells)
    if not any_published(cells):
        notes.append("The paper has no numbers for this.")
    notes += _about_other_data(cells)
    if any(cell.runs < FEWEST_RUNS and cell.difference is not None for cell in cells):
        notes.append(
            f"Fewer than {FEWEST_RUNS} runs give no verdict; their z borrows the paper's standard deviation, if stated."
        )
    for cell in cells if intervals else []:
        if (interval := interval_of_a_small_test(cell)) is not None:
            notes.append(
                f"{cell.network} with {cell.labels} labels was tested on {cell.n_test} points only: its error lies "
                f"between {interval[0]:.1f} and {interval[1]:.1f} % (95 % interval)."
            )
    notes += [f"({letter}) {'; '.join(words)}." for words, letter in _marks(cells).items()]
    if any("fields labeled by" in cell.differs_from_paper for cell in cells):
        notes.append("The oracle answers with the majority class of the training points that a field wins.")
    if any(cell.published_also for cell in cells):
        notes.append("Two published values: the paper's main table / its appendix; the comparison uses the first.")
    return notes


def _about_other_data(cells: list[Cell]) -> list[str]:
    """Numbers that stand side by side without being comparable."""
    names = dict.fromkeys(cell.experiment for cell in cells if cell.verdict == OTHER_DATA)
    return [
        f"The paper's numbers are those of {part.another_part_of}, with {part.train} training points. Ours are for "
        f"{name}, another part of that data with fewer points and other test points, so there is no verdict."
        for name in names
        if (part := published_experiment(name)) is not None
    ]


_COUNTED = (BETTER, WITHIN_NOISE, WORSE)


def _counts(cells: list[Cell]) -> dict[str, int]:
    return {verdict: sum(cell.verdict == verdict for cell in cells) for verdict in _COUNTED}


def _by_algorithm(cells: list[Cell]) -> dict[str, list[Cell]]:
    kinds = {"the paper's algorithm": True, "other settings or algorithms": False}
    return {name: [cell for cell in cells if (not cell.deviations) == same] for name, same in kinds.items()}


def _count_of_verdicts(cells: list[Cell]) -> list[str]:
    """How many cells are better, within noise and worse, where there are several to count; each algorithm by itself."""
    notes = []
    for name, some in _by_algorithm(cells).items():
        counts = _counts(some)
        if (number := sum(counts.values())) >= 2:
            words = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
            notes.append(f"Of {number} cells with a verdict, made by {name}: {words}.")
    return notes


def verdicts_by_experiment(cells: list[Cell]) -> list[list[str]]:
    """How many cells of each of the paper's tables are better, within noise and worse: header first, the sum last.

    A line for the paper's own algorithm and one for others, which have other settings or another algorithm.
    """
    compared = [cell for cell in cells if cell.published_mean is not None and cell.verdict != OTHER_DATA]
    if not compared:
        raise NesiError("there is nothing to count: the paper has no numbers for these runs.")
    table = [["experiment", "made by", "published cells", *_COUNTED, "too few runs", "not run"]]
    for name, some in _by_algorithm(compared).items():
        _check_that_each_counts_once(some)
        total = [0] * (len(table[0]) - 2)
        for experiment in published().experiments.values():
            ours = [cell for cell in some if cell.experiment == experiment.name]
            if any(cell.experiment == experiment.name for cell in compared):
                counts = [*_counts(ours).values()]
                number = len(experiment.cells)
                numbers = [number, *counts, len(ours) - sum(counts), number - len(ours)]
                total = [sum(pair) for pair in zip(total, numbers, strict=True)]
                table.append([experiment.title, name, *map(str, numbers)])
        table.append(["all", name, *map(str, total)])
    return table


def _check_that_each_counts_once(cells: list[Cell]) -> None:
    known: set[tuple[Any, ...]] = set()
    for cell in cells:
        place = (cell.experiment, cell.network, cell.labels, cell.published_table, cell.published_mean)
        if place in known:
            raise NesiError(
                f"{cell.network} with {cell.labels} labels ({cell.experiment}) is there with several settings, and "
                "would count more than once; give directories that have each cell of the paper once."
            )
        known.add(place)


def terminal_table(cells: list[Cell], show: Sequence[str] = ()) -> str:
    return "\n".join([in_columns(rows(cells, show)), *footnotes(cells)])


def in_columns(table: list[list[str]]) -> str:
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() for row in table]
    lines.insert(1, "-" * max(len(line) for line in lines))
    return "\n".join(lines)


def markdown(cells: list[Cell]) -> str:
    title = "Ours against the paper" if any_published(cells) else "Test errors"
    return f"# {title}\n\nTest error: mean ± standard error (number of runs).\n\n{markdown_table(cells)}"


def markdown_table(cells: list[Cell], show: Sequence[str] = ()) -> str:
    lines = [in_markdown(rows(cells, show)), *(f"- {note}".replace("*", "\\*") for note in footnotes(cells))]
    return "\n".join(lines).rstrip() + "\n"


def in_markdown(table: list[list[str]]) -> str:
    lines = ["| " + " | ".join(table[0]) + " |", "|" + "---|" * len(table[0])]
    lines += [
        "| " + " | ".join(text.replace("|", "\\|").replace("*", "\\*") for text in row) + " |" for row in table[1:]
    ]
    return "\n".join(lines) + "\n"


def write_summary(directory: Path, cells: list[Cell]) -> list[Path]:
    """The table for programs and for people; the names of both files."""
    for_programs, for_people = directory / "summary.json", directory / "summary.md"
    write_text(for_programs, json.dumps([asdict(cell) for cell in cells], indent=2) + "\n")
    write_text(for_people, markdown(cells))
    return [for_programs, for_people]


def _with_sem(mean: float, sem: float | None) -> str:
    return f"{mean:.2f}" if sem is None else f"{mean:.2f} ± {sem:.2f}"
