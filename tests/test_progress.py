"""What is shown while runs are going on."""

import fcntl
import os
import re
import struct
import termios

import pytest

from nesi.engines import backend
from nesi.experiment import progress as module
from nesi.experiment.progress import ProgressDisplay, duration
from nesi.experiment.tasks import Progress

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


def several_runs(total: int, done: int = 0) -> ProgressDisplay:
    runs = {f"ff-L10-run{run}": 1000 for run in range(done + 1, total + 1)}
    return ProgressDisplay(total, done, runs, quiet=False, steady=False)


def test_runs_that_may_converge_take_as_long_as_those_before(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = several_runs(10, done=7)
    for iteration in (1, 50):
        display.iteration(Progress("ff-L10-run8", iteration, 1000, None, 0.0))
        clock.now += 50
    display.run_finished("ff-L10-run8", RECORD)
    display.iteration(Progress("ff-L10-run9", 1, 1000, None, 0.0))
    for seconds in (80, 80):
        clock.now += seconds
        display.iteration(Progress("ff-L10-run9", 20, 1000, None, 0.0))
    display.run_finished("ff-L10-run9", RECORD)
    display.run_finished("ff-L10-run10", RECORD)
    lines = capsys.readouterr().out.splitlines()
    assert [re.split("[,;] ", line)[-1] for line in lines] == [
        "time left unknown until a run has ended",
        "about 3 min left",  # 2 x 100 s
        "about 2 min left",  # 2 x 100 s - 80 s
        "about 2 min left",  # one of 100 s, and one that has taken longer already
        "about 2 min left",  # one of (100 + 160) / 2 s
        "about 0 s left",
    ]


def test_runs_at_once_share_the_time_that_is_left(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    display = several_runs(20)
    for run in range(1, 11):
        display.iteration(Progress(f"ff-L10-run{run}", 1, 1000, None, 0.0))
    clock.now += 3600
    for run in range(1, 11):
        display.run_finished(f"ff-L10-run{run}", RECORD)
    first, *_, last = capsys.readouterr().out.splitlines()
    assert first.endswith("about 1 h 0 min left")
    assert last.endswith("about 10 h 0 min left"), "nobody has begun the other ten"


def test_the_rest_of_a_resumed_run_tells_nothing_about_the_others(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    display = several_runs(3)
    display.iteration(Progress("ff-L10-run1", 990, 1000, None, None, resumed=True))
    clock.now += 10
    display.run_finished("ff-L10-run1", {**RECORD, "seconds": 1800.0})
    assert capsys.readouterr().out.endswith("about 1 h 0 min left\n")


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
    assert re.search(r"(s left|time left unknown), r\+-L100-run2 10/10", errors)


@pytest.mark.parametrize("columns", [80, 120])
def test_each_line_fits_the_terminal(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a real one, with a compilation that is announced in the middle."""
    screen, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    name, record = "r+-L11269-run10", {**RECORD, "labels": 11269, "run": 10, "seconds": 1234.5}
    with open(terminal, "w") as stream:
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setattr("sys.stdout", stream)
        display = ProgressDisplay(16, 9, {name: 10, "ff-L10-run1": 10}, quiet=False)
        backend.announce("the step of the first layer")
        for iteration in range(1, 11):
            display.iteration(Progress(name, iteration, 10, -833123.456, 0.54))
        display.run_finished(name, record)
        display.close()
    shown = b""
    while b"about" not in shown.rpartition(b"[10/16]")[2]:
        shown += os.read(screen, 100_000)
    os.close(screen)
    lines = [line for line in re.split(r"[\r\n]+", shown.decode().replace("\x1b[K", "")) if line.strip()]
    assert max(map(len, lines)) <= columns
    assert lines[0].startswith("9/16 runs   0%|")
    assert lines[0].endswith(", starting")
    assert "nesi: compiling the step of the first layer (once per installation, up to 30 s)" in lines
    bars = [line for line in lines if name in line and "%|" in line]
    room_for = r"\|.{10,}\| \d\d:\d\d, (about \d+ s left|time left unknown), " + re.escape(name)
    assert all(re.search(room_for, bar) for bar in bars)
    assert all(("log-likelihood" in bar) == (columns == 120) for bar in bars)
    (finished,) = [line for line in lines if line.startswith("[10/16]")]
    assert "r+ with 11269 labels, run 10: 4.93 % test error" in finished
    assert ("103 iterations, stopped at 93, 1234.5 s" in finished) == (columns == 120)


def test_durations_in_words() -> None:
    assert [duration(seconds) for seconds in (4, 59, 90, 3600, 12000)] == [
        "4 s",
        "59 s",
        "2 min",
        "1 h 0 min",
        "3 h 20 min",
    ]
