"""The paper's numbers: complete, and consistent with themselves where the paper is."""

import math

import pytest

from nesi.report.published import published, published_experiment

ALL_CELLS = [(name, cell) for name, experiment in published().experiments.items() for cell in experiment.cells]
# mean of every cell as printed in the main tables, in reading order
MAIN_TABLES = {
    ("newsgroups20", "ff"): [70.64, 55.67, 30.59, 28.26, 27.87, 28.08],
    ("newsgroups20", "r"): [68.68, 54.24, 29.28, 27.20, 27.15, 27.28],
    ("mnist", "ff"): [55.46, 19.08, 7.27, 5.88, 4.39, 3.27],
    ("mnist", "r"): [29.61, 12.43, 6.94, 6.07, 4.68, 2.94],
    ("mnist", "ff+"): [10.91, 4.96, 4.08, 4.00, 3.85, 3.27],
    ("mnist", "r+"): [17.90, 4.93, 4.34, 4.26, 4.05, 2.94],
    ("nist-digits", "ff+"): [7.56, 6.20, 6.02, 6.02, 5.70, 5.11],
    ("nist-digits", "r+"): [9.84, 6.14, 5.83, 5.94, 5.72, 4.52],
    ("nist-letters", "ff+"): [55.70, 46.22, 44.24, 43.69, 42.96, 34.66],
    ("nist-letters", "r+"): [64.97, 54.08, 43.73, 41.57, 37.95, 31.93],
}


@pytest.mark.parametrize(("key", "means"), MAIN_TABLES.items(), ids=lambda value: str(value)[:30])
def test_main_tables_are_complete(key: tuple[str, str], means: list[float]) -> None:
    experiment = published_experiment(key[0])
    assert experiment is not None
    assert [cell.mean for cell in experiment.cells if cell.network == key[1]] == means


def test_every_cell_says_where_it_comes_from() -> None:
    assert all(cell.table for _, cell in ALL_CELLS)


def test_standard_errors_follow_from_standard_deviations() -> None:
    """Holds up to the rounding of both, for every cell: the one that the paper prints differently is kept in `also`."""
    for name, cell in ALL_CELLS:
        if cell.std is not None and cell.sem is not None and cell.runs:
            decimals = 0.05 if name == "minibatch" else 0.005
            assert cell.std / math.sqrt(cell.runs) == pytest.approx(cell.sem, abs=decimals + 0.007), (name, cell)


def test_means_lie_between_minimum_and_maximum() -> None:
    for _, cell in ALL_CELLS:
        if cell.min is not None and cell.max is not None:
            assert cell.min < cell.mean < cell.max


def test_contradictions_are_kept_as_both_values() -> None:
    both = {(name, cell.network, cell.labels): (cell, cell.also) for name, cell in ALL_CELLS if cell.also}
    assert set(both) == {("mnist", "r+", 10), ("nist-digits", "ff+", 10), ("nist-digits", "r+", 10)}
    cell, also = both["mnist", "r+", 10]
    assert (cell.mean, also["mean"]) == (17.90, 18.68)
    assert [(cell.sem, also["sem"]) for cell, also in list(both.values())[1:]] == [(1.79, 1.76), (2.40, 2.41)]


def test_cells_are_found_by_their_settings() -> None:
    six = published_experiment("newsgroups6")
    bio = published_experiment("bio-inspired")
    assert six is not None
    assert bio is not None
    assert six.cell("ff", 800, {"C": 20}).mean == 14.04
    assert six.cell("ff", 800, {"C": 6}).mean == 40.41
    assert six.cell("ff", 800, {"C": 7}) is None
    assert bio.cell("ff", 60000, {"C": 6400}).mean == 3.28
    assert bio.cell("r", 60000, {"C": 500}).mean == 3.97


def test_single_numbers_of_the_text_are_there() -> None:
    def only(name: str) -> float:
        (cell,) = published().experiments[name].cells
        return cell.mean

    assert only("newsgroups20-full") == 17.85
    assert only("interactive-labeling") == 5.15
    assert only("committee") == 4.53
    assert only("nist-digits-60000") == 9.10
    assert only("nist-digits-raw") == 9.5


def test_competing_methods_say_how_many_labels_they_were_tuned_with() -> None:
    by_name = {(entry.method, entry.dataset, entry.labels): entry for entry in published().competing}
    few = by_name["HDRBM", "newsgroups20", 800]
    assert (few.error, few.tuning_labels) == (31.8, 200)
    assert by_name["HDRBM", "newsgroups20", 9578].tuning_labels == 1691
    assert by_name["35c-MCDNN", "nist-letters", 387361].error == 21.01
    assert by_name["SEM", "mnist", 0].error == 19.86
    assert all(entry.source for entry in published().competing)


def test_tunable_parameters_are_those_of_the_appendix() -> None:
    counts = {entry["method"]: entry["count"] for entry in published().tunable_parameters}
    assert len(counts) == 13
    assert counts["NeSi"] == "4-5"
    assert counts["Ladder"] == ">=18"
