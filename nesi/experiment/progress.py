"""What the user sees while runs are going on: a live bar in a terminal, plain lines elsewhere, or nothing."""

import os
import sys
import time
from collections.abc import Sequence
from typing import Any

from nesi.experiment.tasks import Progress
from nesi.report.wording import duration
from nesi.storage.records import Record

SECONDS_BETWEEN_LINES = 30.0
_SHORTEST_BAR, _USUAL_COLUMNS = 10, 80


class ProgressDisplay:
    """Counts runs and iterations; `quiet` keeps it silent.

    Where runs are `steady`, each has all its iterations and these take equally long, the time left comes from
    iterations. Elsewhere (training that converges, layer by layer) they tell little, and it comes from finished runs.
    """

    def __init__(
        self, total_runs: int, done_runs: int, iterations: dict[str, int], quiet: bool, steady: bool = True
    ) -> None:
        self._total_runs, self._done_runs = total_runs, done_runs
        self._steady = steady
        self._run_times = _RunTimes()
        self._iterations = iterations  # of each run that is still to do
        self._reached: dict[str, int] = {}
        self._resumed = 0
        self._last_line = time.monotonic()
        self._started: float | None = None  # set by the first iteration, which may have waited for a compiler
        self._first = 0
        self._quiet = quiet
        self._bar: Any = None
        if not quiet and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(
                desc=self._count_of_runs(),
                postfix="starting",
                total=sum(iterations.values()),
                unit="it",
                dynamic_ncols=True,
                bar_format="{desc} {percentage:3.0f}%|{bar}| {elapsed}{postfix}",
            )

    def iteration(self, progress: Progress) -> None:
        before = self._reached.get(progress.name, 0)
        self._reached[progress.name] = progress.iteration
        self._run_times.seen(progress)
        if progress.resumed:
            self._resumed += progress.iteration - before
        elif self._started is None:
            self._started, self._first = time.monotonic(), sum(self._reached.values()) - self._resumed
        if self._bar is not None:
            if progress.resumed:
                self._bar.initial += progress.iteration - before
            self._bar.update(max(progress.iteration - before, 0))
            self._bar.set_postfix_str(self._beside_the_bar(progress))
        elif not self._quiet and time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._last_line = time.monotonic()
            print(f"  {', '.join(_status(progress))}, {self._time_left()}", flush=True)

    def run_finished(self, name: str, record: Record) -> None:
        self._done_runs += 1
        self._run_times.ended(name, record["seconds"])
        rest = self._iterations.get(name, 0) - self._reached.get(name, 0)
        self._reached[name] = self._iterations.get(name, 0)
        error = "no test error" if record["test_error"] is None else f"{record['test_error']:.2f} % test error"
        stopped = f", stopped at {record['stopped_at']}" if record["stopped_at"] is not None else ""
        count = f"[{self._done_runs}/{self._total_runs}]"
        result = f"{count} {record['network']} with {record['labels']} labels, run {record['run']}: {error}"
        likelihood = f"log-likelihood {record['log_likelihood']:.3f}"
        effort = f"{record['iterations']} iterations{stopped}, {record['seconds']:.1f} s"
        if self._bar is not None:
            self._bar.update(max(rest, 0))
            self._bar.write(_that_fit(_columns(), [result, effort, likelihood]))
            self._bar.set_description_str(self._count_of_runs())
        elif not self._quiet:
            print(f"{result}, {likelihood}, {effort}; {self._time_left()}", flush=True)
            self._last_line = time.monotonic()

    def say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.write(line)
        elif not self._quiet:
            print(line, flush=True)

    def warn(self, sentence: str) -> None:
        if self._bar is not None:
            self._bar.write(f"warning: {sentence}", file=sys.stderr)
        else:
            print(f"warning: {sentence}", file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()

    def _count_of_runs(self) -> str:
        return f"{self._done_runs}/{self._total_runs} runs"

    def _beside_the_bar(self, progress: Progress) -> str:
        """As much as there is room for; the time left first, as it is what one looks for."""
        taken = len(f"{self._count_of_runs()} 100%|| 00:00:00, ") + _SHORTEST_BAR
        left = self._time_left().removesuffix(" until a run has ended")
        return _that_fit(_columns() - taken, [left, *_status(progress, short=True)])

    def _time_left(self) -> str:
        if not self._steady and len(self._iterations) > 1:
            return self._run_times.left(self._total_runs - self._done_runs)
        done_here = sum(self._reached.values()) - self._resumed - self._first
        rest = sum(self._iterations.values()) - sum(self._reached.values())
        if self._started is None or done_here <= 0:
            return "time left unknown"
        about = "about" if self._steady else "at most"
        return f"{about} {duration(rest * (time.monotonic() - self._started) / done_here)} left"


class _RunTimes:
    """How long runs take whose iterations tell little: as long as those that have ended here."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._taken: list[float] = []
        self._at_once = 1

    def seen(self, progress: Progress) -> None:
        nearly_done = progress.resumed and progress.iteration > progress.iterations / 2
        if not nearly_done:
            self._begun.setdefault(progress.name, time.monotonic())

    def ended(self, name: str, seconds: float) -> None:
        """`seconds`: what the run took in all, with what was done before this invocation."""
        begun = self._begun.pop(name, None)
        self._at_once = len(self._begun) + 1
        self._taken.append(seconds if begun is None else time.monotonic() - begun)

    def left(self, runs: int) -> str:
        if not self._taken:
            return "time left unknown until a run has ended"
        usual, now = sum(self._taken) / len(self._taken), time.monotonic()
        under_way = [max(usual - (now - begun), 0.0) for begun in self._begun.values()]
        work = sum(under_way) + max(runs - len(under_way), 0) * usual
        seconds = max([work / max(self._at_once, len(under_way)), *under_way])
        return f"about {duration(seconds)} left" if seconds > 0 or runs == 0 else "time left unknown"


def _columns() -> int:
    """Of the terminal that shows the bar."""
    try:
        return os.get_terminal_size(sys.stderr.fileno()).columns or _USUAL_COLUMNS
    except (OSError, ValueError):
        return _USUAL_COLUMNS


def _that_fit(columns: int, parts: Sequence[str]) -> str:
    """The first one, and as many of the others, the most important first, as a line has room for."""
    line = parts[0]
    for part in parts[1:]:
        if len(line) + len(part) + 2 > columns:
            break
        line += f", {part}"
    return line


def _status(progress: Progress, short: bool = False) -> list[str]:
    """In words; beside a bar everybody knows what is being counted."""
    counted = "" if short else "iteration "
    parts = [f"{progress.name} {counted}{progress.iteration}/{progress.iterations}"]
    if progress.log_likelihood is not None:
        parts.append(f"log-likelihood {progress.log_likelihood:.3f}")
    if progress.self_labeled is not None and "+" in progress.name:
        parts.append(f"{100 * progress.self_labeled:.0f} % self-labeled")
    return parts
