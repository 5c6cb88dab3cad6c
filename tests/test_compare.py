"""Ours against the paper: statistics, verdicts, merging of directories."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nesi.errors import NesiError
from nesi.report.comparison import BETTER, NOT_PUBLISHED, TOO_FEW, WITHIN_NOISE, WORSE, collect, summarize, welch
from nesi.report.deviations import OTHER_SETTINGS
from nesi.report.tables import terminal_table
from nesi.storage.records import append_record

SETTINGS = {"C": 10000, "A": 900.0, "epsilon_W": 0.2, "epsilon_R": 0.2, "threshold": 0.6, "iterations": 500}


def record(run: int, error: float, **changes: object) -> dict:
    base = {
        "dataset": "mnist",
        "experiment": "mnist",
        "network": "r+",
        "labels": 100,
        "run": run,
        "seed": 1,
        "test_error": error,
        "log_likelihood": -833.0,
        "seconds": 10.0,
        "inference": "exact",
        "n_train": 60000,
        "settings": SETTINGS,
    }
    return {**base, **changes}


def test_statistics_of_a_cell() -> None:
    (cell,) = summarize([record(1, 4.0), record(2, 5.0), record(3, 6.0)])
    assert (cell.runs, cell.mean, cell.std, cell.min, cell.max) == (3, 5.0, 1.0, 4.0, 6.0)
    assert cell.sem == pytest.approx(1 / 3**0.5)
    assert (cell.published_mean, cell.published_sem, cell.published_runs) == (4.93, 0.05, 100)
    assert cell.difference == pytest.approx(0.07)
    assert cell.z == pytest.approx(0.07 / (1 / 3 + 0.05**2) ** 0.5)
    assert cell.verdict == WITHIN_NOISE


@pytest.mark.parametrize(
    ("errors", "verdict"),
    [
        ([4.9], TOO_FEW),
        ([1.0, 1.1], TOO_FEW),
        ([4.9, 5.0, 4.8], WITHIN_NOISE),
        ([9.0, 9.1, 9.2, 9.1], WORSE),
        ([3.0, 3.1, 3.2, 3.1], BETTER),
        ([5.0, 5.2, 5.6], WITHIN_NOISE),  # z = 1.9, but three runs know little about their own spread
    ],
)
def test_verdicts(errors: list[float], verdict: str) -> None:
    (cell,) = summarize([record(run, error) for run, error in enumerate(errors)])
    assert cell.verdict == verdict


def test_verdicts_are_counted() -> None:
    errors = {"ff": (18.0, 18.1, 18.2), "r+": (4.9, 5.0, 4.8), "ff+": (9.0, 9.1, 9.2)}
    found = [record(run, e, network=name) for name, each in errors.items() for run, e in enumerate(each)]
    sentence = "Of 3 cells with a verdict, made by the paper's algorithm: 1 better, 1 within noise, 1 worse."
    assert sentence in terminal_table(summarize(found))
    assert "cells" not in terminal_table(summarize(found[:3]))


def test_few_runs_need_a_larger_difference() -> None:
    assert welch(10.0, 0.3, 3, 9.0, 0.1, 100)[1] == WITHIN_NOISE
    assert welch(10.0, 0.3, 30, 9.0, 0.1, 100)[1] == WORSE


def test_one_run_borrows_the_spread_of_the_paper() -> None:
    (cell,) = summarize([record(1, 5.91)])
    assert cell.z == pytest.approx((5.91 - 4.93) / (0.49**2 + 0.05**2) ** 0.5)
    assert cell.verdict == TOO_FEW
    assert welch(5.0, None, 1, 4.0, 0.1, 10)[0] is None


def test_equal_runs_without_spread_do_not_divide_by_zero() -> None:
    assert welch(5.0, 0.0, 5, 5.0, None, None) == (None, WITHIN_NOISE)
    assert welch(5.0, 0.0, 5, 4.0, None, None) == (None, TOO_FEW)


def test_other_settings_are_pointed_out() -> None:
    (cell,) = summarize([record(1, 5.0, settings={**SETTINGS, "C": 500})])
    assert cell.differs_from_paper == {"C": [500, 10000]}
    assert cell.algorithm == OTHER_SETTINGS
    table = terminal_table([cell])
    assert "other settings (a)" in table
    assert "(a) C = 500 (paper: 10000)." in table


def test_one_label_per_class_has_2000_iterations_in_the_paper() -> None:
    (cell,) = summarize([record(1, 15.0, labels=10, settings={**SETTINGS, "iterations": 2000})])
    assert cell.differs_from_paper == {}
    assert cell.published_also["mean"] == 18.68
    assert "17.90 ± 0.89 (100) / 18.68 ± 0.89" in terminal_table([cell])


def test_what_is_not_in_the_paper_is_said() -> None:
    (cell,) = summarize([record(1, 5.0, labels=123)])
    assert (cell.verdict, cell.published_mean, cell.z) == (NOT_PUBLISHED, None, None)
    alone = terminal_table([cell])
    assert "The paper has no numbers for this." in alone
    assert "verdict" not in alone
    beside = terminal_table([cell, *summarize([record(1, 5.0)])])
    assert "not in the paper" in beside
    assert "no numbers" not in beside


def test_directories_are_merged_and_runs_counted_once(tmp_path: Path) -> None:
    for name, entries in (("a", [record(1, 4.0), record(2, 5.0)]), ("b", [record(2, 5.0), record(1, 6.0, seed=2)])):
        (tmp_path / name).mkdir()
        for entry in entries:
            append_record(tmp_path / name, entry)
    (cell,) = summarize(collect([tmp_path / "a", tmp_path / "b"]))
    assert (cell.runs, cell.mean) == (3, 5.0)


def test_rows_that_would_look_alike_are_told_apart_by_their_settings() -> None:
    hard = {**SETTINGS, "class_assignment": "hard max"}
    small = {**SETTINGS, "C": 500}
    cells = summarize([record(1, 4.0), record(1, 5.0, settings=hard), record(1, 6.0, labels=10, settings=small)])
    header, _, *lines = terminal_table(cells).splitlines()
    assert header.split()[:4] == ["network", "labels", "class_assignment", "ours"]
    starts = sorted(" ".join(line.split())[:20] for line in lines[:3])
    assert starts == ["r+ 10 - 6.00 (1) 17.", "r+ 100 - 4.00 (1) 4.", "r+ 100 hard max 5.00"]
    assert "class_assignment" not in terminal_table(summarize([record(1, 4.0), record(2, 5.0)]))


def test_the_command_writes_what_it_prints(tmp_path: Path) -> None:
    append_record(tmp_path, record(1, 4.0))
    command = [sys.executable, "-m", "nesi", "compare", str(tmp_path), "--out", str(tmp_path / "merged")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "4.93 ± 0.05 (100)" in done.stdout
    (entry,) = json.loads((tmp_path / "merged" / "summary.json").read_text())
    assert {"runs", "mean", "sem", "std", "min", "max", "published_mean", "published_sem", "z"} <= set(entry)
    assert "| r+ | 100 |" in (tmp_path / "merged" / "summary.md").read_text()


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    append_record(tmp_path, record(1, 5.0))
    command = [sys.executable, "-m", "nesi", "compare", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()  # as `| head` does
        assert process.stderr.read() == ""
    assert process.returncode == 128 + signal.SIGPIPE


def test_directories_without_records_are_refused(tmp_path: Path) -> None:
    with pytest.raises(NesiError, match=r"no records\.jsonl"):
        collect([tmp_path])
    with pytest.raises(NesiError, match="no such directory"):
        collect([tmp_path / "missing"])
