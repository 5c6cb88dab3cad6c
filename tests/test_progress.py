"""What is shown while runs are going on."""

import re

import pytest

from nesi import progress as module
from nesi.progress import ProgressDisplay, duration
from nesi.run_task import Progress

RECORD = {"network": "r+", "labels": 100, "run": 2, "test_error": 4.93, "stopped_at": 93, "log_likelihood": -833.0}
RECORD |= {"iterations": 103, "seconds": 12.34}


class Clock:
    now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def test_plain_lines_elsewhere_than_in_a_terminal(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = ProgressDisplay(2, 0, {"r+-L100-run1": 100, "r+-L100-run2": 100}, quiet=False)
    for iteration in range(1, 52):
        display.iteration(Progress("r+-L100-run1", iteration, 100, -833.1, 0.54))
        clock.now += 1
    display.run_finished("r+-L100-run1", {**RECORD, "run": 1})
    output, errors = capsys.readouterr()
    lines = output.splitlines()
    assert errors == ""
    assert lines[0].strip() == (
        "r+-L100-run1 iteration 31/100, log-likelihood -833.100, 54 % self-labeled, about 3 min left"
    )
    assert lines[-1].startswith("[1/2] r+ with 100 labels, run 1: 4.93 % test error")
    assert "stopped at 93" in lines[-1]
    assert len(lines) == 2, "one line per half minute and one per run"


def test_the_time_left_counts_neither_compilation_nor_resumed_iterations(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    display = ProgressDisplay(1, 0, {"ff-L10-run1": 100}, quiet=False)
    display.iteration(Progress("ff-L10-run1", 60, 100, None, None, resumed=True))
    clock.now += 500  # the first iteration waits for the compiler
    display.iteration(Progress("ff-L10-run1", 61, 100, -1.0, 0.0))
    clock.now += 40
    display.iteration(Progress("ff-L10-run1", 80, 100, -1.0, 0.0))
    left = re.findall(r"about (\d+ \w+) left", capsys.readouterr().out)
    assert left[-1] == "42 s"


def test_a_run_that_may_converge_takes_at_most_so_long(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = ProgressDisplay(1, 0, {"ff-L10-run1": 500}, quiet=False, steady=False)
    for iteration in (1, 50):
        display.iteration(Progress("ff-L10-run1", iteration, 500, None, 0.0))
        clock.now += 49
    display.run_finished("ff-L10-run1", RECORD)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "  ff-L10-run1 iteration 50/500, at most 8 min left"  # and no likelihood that is not known


def test_many_runs_that_may_converge_take_as_long_as_those_before(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    display = ProgressDisplay(10, 7, {f"ff-L10-run{run}": 1000 for run in (8, 9, 10)}, quiet=False, steady=False)
    for iteration in (1, 50):
        display.iteration(Progress("ff-L10-run8", iteration, 1000, None, 0.0))
        clock.now += 49
    clock.now += 2  # 100 seconds since the first iteration ended, 950 iterations less than there might have been
    display.run_finished("ff-L10-run8", RECORD)
    clock.now += 40
    display.iteration(Progress("ff-L10-run9", 20, 1000, None, 0.0))
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "  ff-L10-run8 iteration 50/1000, time left unknown until a run has ended"
    assert second.endswith("; about 3 min left")  # 2 x 100 s
    assert third == "  ff-L10-run9 iteration 20/1000, about 3 min left"  # 2 x 100 s - 40 s


def test_quiet_is_silent(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = ProgressDisplay(1, 0, {"ff-L10-run1": 100}, quiet=True)
    clock.now += 100
    display.iteration(Progress("ff-L10-run1", 1, 100, -1.0, 0.0))
    display.run_finished("ff-L10-run1", RECORD)
    display.say("something")
    assert capsys.readouterr() == ("", "")


def test_a_live_bar_in_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    display = ProgressDisplay(2, 1, {"r+-L100-run2": 10}, quiet=False)
    for iteration in range(1, 11):
        display.iteration(Progress("r+-L100-run2", iteration, 10, -833.1, 0.54))
    display.run_finished("r+-L100-run2", RECORD)
    display.close()
    output, errors = capsys.readouterr()
    assert "[2/2] r+ with 100 labels, run 2: 4.93 % test error" in output
    assert "2/2 runs" in errors
    assert "log-likelihood -833.100" in errors


def test_durations_in_words() -> None:
    assert [duration(seconds) for seconds in (4, 59, 90, 3600, 12000)] == [
        "4 s",
        "59 s",
        "2 min",
        "1 h 0 min",
        "3 h 20 min",
    ]
