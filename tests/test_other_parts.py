"""Data that is another part of the paper's: the published numbers stand beside ours, and nobody is better or worse."""

from pathlib import Path

import numpy as np
import pytest
from command_line import nesi

from nesi.report.comparison import OTHER_DATA, Cell, summarize
from nesi.report.comparison_figures import error_by_labels
from nesi.report.figures import most_confused
from nesi.report.page import competing_with
from nesi.report.published import published, published_experiment
from nesi.report.tables import markdown_table, rows
from nesi.storage.records import append_record

SETTINGS = {"C": 10000, "A": 900.0, "epsilon_W": 0.2, "epsilon_R": 1.0, "threshold": 0.6, "iterations": 500}


def records(network: str, labels: int, error: float, **settings: object) -> list[dict]:
    base = {"dataset": "emnist-part-digits", "experiment": "emnist-part-digits", "network": network, "labels": labels}
    base |= {"seed": 1, "log_likelihood": -800.0, "seconds": 1.0, "inference": "exact", "n_train": 90731}
    return [
        {**base, "run": run, "test_error": error + 0.01 * run, "settings": {**SETTINGS, **settings}}
        for run in (1, 2, 3)
    ]


@pytest.fixture(scope="module")
def cells() -> list[Cell]:
    """One far below the paper's error, one far above it, one with all labels, and one that the paper does not have."""
    return summarize(
        [
            *records("ff+", 100, 1.0),
            *records("r+", 100, 50.0),
            *records("r+", 90731, 4.0, epsilon_R=0.2),
            *records("ff", 100, 20.0),
        ]
    )


def test_no_cell_is_judged(cells: list[Cell]) -> None:
    assert [cell.verdict for cell in cells] == ["not in the paper", OTHER_DATA, OTHER_DATA, OTHER_DATA]
    assert all(cell.z is None and cell.difference is None for cell in cells)
    table = rows(cells)
    assert table[0][-2:] == ["paper [%]", "remark"]
    assert [row[-2] for row in table[1:]] == ["-", "6.20 ± 0.16 (10)", "6.14 ± 0.23 (10)", "4.52 ± 0.01 (10)"]
    text = markdown_table(cells)
    for word in ("better", "worse", "within noise", "with a verdict"):
        assert word not in text
    assert "those of nist-digits, with 344307 training points" in text
    assert "another part of that data with fewer points" in text
    assert "training points = 90731 (paper: 344307)" in text


def test_verdicts_of_other_cells_stay_when_both_are_shown(cells: list[Cell]) -> None:
    ordinary = summarize(
        [{**record, "experiment": "nist-digits", "n_train": 344307} for record in records("ff+", 100, 6.0)]
    )
    table = rows([*ordinary, *cells])
    assert table[0][-3:] == ["difference", "z", "verdict"]
    assert [row[-3] for row in table[1:]] == ["-0.18", "-", "-", "-", "-"]


def test_they_are_never_counted(tmp_path: Path) -> None:
    for record in records("ff+", 100, 1.0):
        append_record(tmp_path, record)
    code, output = nesi("compare", "--count", tmp_path)
    assert code == 2
    assert "nothing to count" in output
    code, output = nesi("compare", tmp_path)
    assert code == 0
    assert "another part of the data" in output


def test_all_labels_of_ours_stand_beside_all_labels_of_theirs() -> None:
    letters = published_experiment("emnist-part-letters")
    assert letters is not None
    assert letters.cell("ff+", 58405, {}).mean == 34.66
    assert letters.cell("ff+", 520, {}).mean == 46.22
    assert letters.cell("ff+", 387361, {}).mean == 34.66
    assert letters.cell("ff", 520, {}) is None
    assert set(published().other_parts) == {"emnist-part-digits", "emnist-part-letters"}
    assert not set(published().other_parts) & set(published().experiments)


def test_the_picture_says_whose_data_it_is(cells: list[Cell]) -> None:
    experiment = published_experiment("emnist-part-digits")
    assert experiment is not None
    competing = competing_with(experiment.name, experiment.dataset)
    assert [entry.method for entry in competing] == ["35c-MCDNN"]
    figure = error_by_labels(cells, experiment, competing, experiment.title)
    (axes,) = figure.axes
    names = axes.get_legend_handles_labels()[1]
    assert "ff+-NeSi, paper (its own data, 344307 points)" in names
    assert {name.split(", ")[0] for name in names} == {"ff-NeSi", "ff+-NeSi", "r+-NeSi", "35c-MCDNN"}


def test_the_most_frequent_confusions_are_named() -> None:
    counts = np.array([[8, 2, 0], [5, 15, 0], [0, 1, 3]])
    assert most_confused(counts, ["O", "o", "x"], 2) == "o as O (25 % of o), O as o (20 % of O)"
    assert most_confused(counts, ["O", "o", "x"]).endswith(", x as o (25 % of x)")
    assert most_confused(np.eye(3, dtype=int), ["O", "o", "x"]) == ""
