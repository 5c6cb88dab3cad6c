"""Our numbers against the paper's, cell by cell: mean, standard error, difference, z, and a verdict in plain words."""

from __future__ import annotations

import json
import math
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scipy import stats

from nesi.config.declaration import columns
from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.networks import NETWORKS
from nesi.report.deviations import THE_PAPERS, differences, in_words, kind_of
from nesi.report.published import PublishedCell, published_experiment
from nesi.storage.experiment_directory import ExperimentDirectory
from nesi.storage.records import Record

FEWEST_RUNS = 3
SIGNIFICANCE = 0.05
FEW_TEST_POINTS = 1000
BETTER, WITHIN_NOISE, WORSE = "better", "within noise", "worse"
TOO_FEW, NOT_PUBLISHED, OTHER_DATA = "too few runs to say", "not in the paper", "another part of the data"
# Settings that become columns where they tell two rows apart, in this order.
TELLING = columns(ExperimentParameters)


@dataclass(frozen=True)
class Cell:
    """One network with one number of labels. Errors in percent; z < 0 means ours is lower."""

    experiment: str
    dataset: str
    network: str
    labels: int
    runs: int
    mean: float
    sem: float | None
    std: float | None
    min: float
    max: float
    published_mean: float | None
    published_sem: float | None
    published_runs: int | None
    published_also: dict[str, Any] | None
    published_table: str | None
    difference: float | None
    z: float | None
    verdict: str
    differs_from_paper: dict[str, Any]  # key -> [ours, the paper's]
    C: int | None
    inference: str
    mean_log_likelihood: float
    mean_seconds: float
    fields: int | None = None  # how many fields were labeled instead of points
    settings: dict[str, Any] = field(default_factory=dict)
    algorithm: str = THE_PAPERS  # or with other settings, or another algorithm
    deviations: list[str] = field(default_factory=list)  # what differs from the paper, in words
    iterations: list[int] = field(default_factory=list)  # the fewest and the most that were really run
    n_test: int | None = None  # points that were tested in each run


def collect(directories: list[Path]) -> list[Record]:
    """The records of several directories; a run that is in more than one of them counts once."""
    merged: dict[str, Record] = {}
    for directory in directories:
        for record in ExperimentDirectory(directory).records():
            merged.setdefault(_same_run(record), record)
    return list(merged.values())


def summarize(records: list[Record]) -> list[Cell]:
    """One cell per experiment, network, number of labels and settings, in the order of the paper's tables."""
    groups: dict[tuple[Any, ...], list[Record]] = {}
    for record in records:
        if record.get("test_error") is not None:
            groups.setdefault(_cell_key(record), []).append(record)

    def place(key: tuple[Any, ...]) -> tuple[Any, ...]:
        experiment, dataset, network, labels, settings = key
        return (
            experiment,
            dataset,
            labels,
            list(NETWORKS).index(network),
            groups[key][0]["settings"].get("C") or 0,
            settings,
        )

    return [_cell(groups[key]) for key in sorted(groups, key=place)]


def interval_of_a_small_test(cell: Cell) -> tuple[float, float] | None:
    """The same, if few points are left for testing: then a reader of the table has to know."""
    return interval_of_the_test(cell) if (cell.n_test or 0) < FEW_TEST_POINTS else None


def interval_of_the_test(cell: Cell) -> tuple[float, float] | None:
    """Where the error of all points lies with 95 % probability (Wilson), for data that the paper has no number for."""
    if not cell.n_test or cell.published_mean is not None:
        return None
    wrong = round(cell.mean / 100 * cell.n_test)
    interval = stats.binomtest(wrong, cell.n_test).proportion_ci(1 - SIGNIFICANCE, method="wilson")
    return 100 * float(interval.low), 100 * float(interval.high)


def welch(
    mean: float,
    sem: float | None,
    runs: int,
    other: float,
    other_sem: float | None,
    other_runs: int | None,
    other_std: float | None = None,
) -> tuple[float | None, str]:
    """z and the verdict of Welch's test at 5 %: with few runs, a difference has to be larger to count.

    One or two runs know nothing of their own spread: their z borrows the paper's standard deviation.
    """
    if runs < FEWEST_RUNS or sem is None:
        if not other_std:
            return None, TOO_FEW
        return (mean - other) / math.sqrt(other_std**2 / runs + (other_sem or 0.0) ** 2), TOO_FEW
    ours, theirs = sem**2, (other_sem or 0.0) ** 2
    if ours + theirs == 0:
        return None, WITHIN_NOISE if mean == other else TOO_FEW
    z = (mean - other) / math.sqrt(ours + theirs)
    parts = ours**2 / (runs - 1) + (theirs**2 / (other_runs - 1) if other_runs and other_runs > 1 else 0.0)
    freedom = (ours + theirs) ** 2 / parts if parts > 0 else math.inf
    critical = stats.t.ppf(1 - SIGNIFICANCE / 2, freedom) if math.isfinite(freedom) else 1.96
    if abs(z) <= critical:
        return z, WITHIN_NOISE
    return z, BETTER if z < 0 else WORSE


def _cell(records: list[Record]) -> Cell:
    first = records[0]
    errors = [float(record["test_error"]) for record in records]
    runs, mean = len(errors), statistics.fmean(errors)
    std = statistics.stdev(errors) if runs > 1 else None
    sem = std / math.sqrt(runs) if std is not None else None
    iterations = [int(record["iterations"]) for record in records if "iterations" in record]
    experiment = published_experiment(str(first.get("experiment") or first["dataset"]))
    paper = experiment.cell(first["network"], first["labels"], first["settings"]) if experiment else None
    z, verdict = None, NOT_PUBLISHED
    judged = paper is not None and experiment is not None and experiment.another_part_of is None
    if paper is not None and not judged:
        verdict = OTHER_DATA
    if paper is not None and judged:
        z, verdict = welch(mean, sem, runs, paper.mean, paper.sem, paper.runs, paper.std)
    differs, words = {}, []
    if experiment is not None and paper is not None:
        differs = differences(records, experiment, paper)
        words = in_words(differs, records)
        questions = _different_questions(first["settings"], paper)
        differs |= questions
        words += [f"{key} = {ours} (paper: {theirs})" for key, (ours, theirs) in questions.items()]
    return Cell(
        experiment=str(first.get("experiment") or first["dataset"]),
        dataset=first["dataset"],
        network=first["network"],
        labels=first["labels"],
        runs=runs,
        mean=mean,
        sem=sem,
        std=std,
        min=min(errors),
        max=max(errors),
        published_mean=paper.mean if paper else None,
        published_sem=paper.sem if paper else None,
        published_runs=paper.runs if paper else None,
        published_also=(paper.also or None) if paper else None,
        published_table=paper.table if paper else None,
        difference=mean - paper.mean if paper and judged else None,
        z=z,
        verdict=verdict,
        differs_from_paper={key: list(pair) for key, pair in differs.items()},
        C=first["settings"].get("C"),
        inference=first["inference"],
        mean_log_likelihood=statistics.fmean(float(record["log_likelihood"]) for record in records),
        mean_seconds=statistics.fmean(float(record["seconds"]) for record in records),
        fields=(first["settings"].get("field_labels") or {}).get("fields"),
        settings={key: first["settings"][key] for key in TELLING if key in first["settings"]},
        algorithm=kind_of(differs) if paper is not None else NOT_PUBLISHED,
        deviations=words,
        iterations=[min(iterations), max(iterations)] if iterations else [],
        n_test=first.get("n_test"),
    )


def _different_questions(settings: dict[str, Any], paper: PublishedCell) -> dict[str, tuple[Any, Any]]:
    """In the paper a person labeled randomly chosen fields."""
    options = settings.get("field_labels")
    if not options:
        return {}
    found: dict[str, tuple[Any, Any]] = {}
    if options["by"] == "oracle":
        found["fields labeled by"] = ("oracle", "person")
    if options["fields"] != paper.fields:
        found["fields labeled"] = (options["fields"], paper.fields)
    if options["choose"] != "random" and options["fields"] != settings.get("C"):
        found["choice of fields"] = (options["choose"], "random")
    if options["answers"] != "class":
        found["answers"] = (options["answers"], "class")
    if options.get("spread") and options["fields"] != settings.get("C"):
        found["answers spread to similar fields"] = (True, False)
    return found


def _cell_key(record: Record) -> tuple[Any, ...]:
    # A setting that a later version brought along is off in records of an earlier one.
    used = {key: value for key, value in record["settings"].items() if value is not None and value is not False}
    settings = json.dumps(used, sort_keys=True)
    return record.get("experiment", record["dataset"]), record["dataset"], record["network"], record["labels"], settings


def _same_run(record: Record) -> str:
    try:
        return json.dumps([*_cell_key(record), record["run"], record["seed"]])
    except (KeyError, TypeError) as error:
        raise NesiError(f"a record lacks {error}; it was not written by this version of run_experiment.py.") from None
