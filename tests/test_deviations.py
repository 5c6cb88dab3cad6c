"""Every way in which a cell differs from the paper's algorithm is named, and nothing else is."""

from typing import Any

import pytest

from nesi.config import load_parameters
from nesi.config.shipped import shipped_files
from nesi.report.comparison import summarize
from nesi.report.deviations import OTHER_ALGORITHM, OTHER_SETTINGS, THE_PAPERS
from nesi.report.published import published_experiment
from nesi.report.tables import terminal_table

# Files whose cells are in one of the paper's tables.
OF_THE_PAPER = {
    "mnist": "mnist",
    "newsgroups20": "newsgroups20",
    "newsgroups20_full": "newsgroups20-full",
    "newsgroups6": "newsgroups6",
    "nist_digits": "nist-digits",
    "nist_letters": "nist-letters",
    "bio_snn": "bio-inspired",
    "bio_snn_hard_max": "bio-inspired",
    "bio_ssm": "bio-inspired",
    "committee": "committee",
}


def records_of(file: str, mode: str) -> list[dict[str, Any]]:
    """Three made-up runs of every cell of the paper that the file has."""
    parameters = load_parameters(shipped_files()[file], {"mode": mode})
    experiment = published_experiment(OF_THE_PAPER[file])
    assert experiment is not None
    found = []
    for network in parameters.networks:
        for labels in (experiment.train if entry == "all" else entry for entry in parameters.labels):
            cell = parameters.for_cell(network, labels, experiment.train)
            settings = cell.settings_for_record()
            if experiment.cell(network, labels, settings) is None:
                continue
            record = {
                "dataset": experiment.dataset,
                "experiment": experiment.name,
                "network": network,
                "labels": labels,
            }
            record |= {"seed": 1, "log_likelihood": -1.0, "seconds": 1.0, "inference": cell.inference}
            record |= {"n_train": experiment.train, "settings": settings, "iterations": cell.iterations}
            record["converged_at"] = None if cell.tolerance is None else 50
            W = "class_means" if experiment.classes == cell.C else "points" if cell.inference == "truncated" else "data"
            W = "points" if cell.R_init == "points" else W
            record["resolved"] = {
                "batch_size": cell.batch_size or 1000,
                "W_init": W,
                "R_init": cell.R_init or "uniform",
            }
            found += [{**record, "run": run, "test_error": 5.0 + run} for run in (1, 2, 3)]
    return found


@pytest.mark.parametrize("file", sorted(OF_THE_PAPER))
def test_paper_mode_does_not_differ_from_the_paper_in_any_cell(file: str) -> None:
    cells = summarize(records_of(file, "paper"))
    assert cells
    for cell in cells:
        assert (cell.algorithm, cell.deviations, cell.differs_from_paper) == (THE_PAPERS, [], {})
    assert "other" not in terminal_table(cells)


@pytest.mark.parametrize("file", sorted(OF_THE_PAPER))
def test_fast_mode_is_another_algorithm_in_every_cell(file: str) -> None:
    cells = summarize(records_of(file, "fast"))
    assert cells
    assert {cell.algorithm for cell in cells} == {OTHER_ALGORITHM}
    table = terminal_table(cells)
    assert "other algorithm (a)" in table
    assert "\n(a) " in table


def changed(**settings: Any) -> Any:
    """One cell of MNIST (r, 100 labels) in paper mode, but for these settings."""
    parameters = load_parameters(shipped_files()["mnist"], {"mode": "paper"}).for_cell("r", 100, 60000)
    record = {"dataset": "mnist", "experiment": "mnist", "network": "r", "labels": 100, "seed": 1, "run": 1}
    record |= {"log_likelihood": -1.0, "seconds": 1.0, "inference": "exact", "iterations": 77, "test_error": 12.0}
    settings = {**parameters.settings_for_record(), **settings}
    starts = {"W_init": settings.get("W_init") or "data", "R_init": settings.get("R_init") or "uniform"}
    ended = 77 if settings.get("tolerance") else None
    resolved = {"batch_size": settings["batch_size"], **starts}
    (cell,) = summarize([{**record, "settings": settings, "converged_at": ended, "resolved": resolved}])
    return cell


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"inference": "truncated"}, "truncated posteriors"),
        ({"greedy": True}, "greedy start"),
        ({"minibatch_rule": "sequential"}, "sequential mini-batches of 25"),
        ({"batch_size": 100}, "summed mini-batches of 100 (paper: 25)"),
        ({"W_init": "points"}, "W starts from points"),
        ({"R_init": "points"}, "R starts from points"),
        ({"tolerance": 0.005}, "ended by a tolerance of 0.005"),
        ({"stopping": False}, "without the stopping criterion"),
        ({"stopping_width": 4}, "stopping width = 4 (paper: 20)"),
        ({"iterations": 50}, "iterations = 50 (paper: 500)"),
        ({"class_prior": [0.1] * 10}, f"class prior = {[0.1] * 10} (paper: None)"),
    ],
)
def test_a_difference_in_the_algorithm_is_named(settings: dict[str, Any], words: str) -> None:
    cell = changed(**settings)
    assert cell.deviations == [words]
    assert cell.algorithm == OTHER_ALGORITHM


@pytest.mark.parametrize("settings", [{"epsilon_W": 0.1}, {"C": 500}, {"A": 1000.0}, {"epsilon_R": 1.0}])
def test_other_free_parameters_are_no_other_algorithm(settings: dict[str, Any]) -> None:
    cell = changed(**settings)
    ((key, value),) = settings.items()
    assert [word.split(" (paper")[0] for word in cell.deviations] == [f"{key} = {value}"]
    assert cell.algorithm == OTHER_SETTINGS


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"settings": {"committee": 5}}, "committee = 5 (paper: 1)"),
        ({"settings": {"legacy": {"idf": True}}}, "legacy = idf (paper: none)"),
        ({"n_test": 100}, "test points = 100 (paper: 10000)"),
        ({"n_train": 100}, "training points = 100 (paper: 60000)"),
    ],
)
def test_what_records_leave_out_by_default_is_compared_too(changes: dict[str, Any], words: str) -> None:
    (record,) = (
        one
        for one in records_of("mnist", "paper")
        if one["run"] == 1 and one["network"] == "ff" and one["labels"] == 100
    )
    settings = {**record["settings"], **changes.pop("settings", {})}
    (cell,) = summarize([{**record, "settings": settings, **changes}])
    assert cell.deviations == [words]


def test_a_tolerance_that_ended_an_earlier_phase_is_named() -> None:
    (record,) = (
        one
        for one in records_of("mnist", "fast")
        if one["run"] == 1 and one["network"] == "r+" and one["labels"] == 100
    )
    record = {**record, "converged_at": None, "iterations": 1100}
    assert "ended by a tolerance of 0.005" in summarize([record])[0].deviations  # 3 phases of 500: it was fewer
    phases = [{"learning": "first", "iterations": 500, "ended_by": "iterations"}]
    record["resolved"] = {**record["resolved"], "phases": phases}
    assert "ended by a tolerance of 0.005" not in summarize([record])[0].deviations


def test_a_cell_that_the_paper_does_not_have_is_not_called_the_papers() -> None:
    cell = changed()
    assert cell.algorithm == THE_PAPERS
    other = records_of("mnist", "fast")[0]
    assert summarize([{**other, "labels": 123}])[0].algorithm == "not in the paper"


def test_a_tolerance_that_ended_nothing_is_no_difference() -> None:
    cell = changed()
    assert cell.deviations == []
    assert changed(threshold=0.3).deviations == []  # r has no use for it


def test_the_iterations_really_run_are_a_column_where_a_tolerance_ended_training() -> None:
    assert " iterations " in terminal_table([changed(tolerance=0.005)])
    assert " 77 " in terminal_table([changed(tolerance=0.005)])
    assert " iterations " not in terminal_table([changed()])
