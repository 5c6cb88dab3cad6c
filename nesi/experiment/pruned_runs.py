"""Pruning of the networks that an experiment has kept, with the test error before and after (Section 4.3.4)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nesi.errors import NesiError
from nesi.experiment.finished_run import FinishedRun, finished_runs
from nesi.fields.pruning import FORGOTTEN, SINGLE_POINT, prune, unit_usage
from nesi.storage.records import make_directory


class Pruned(NamedTuple):
    """One network before and after; errors in percent."""

    run: str
    units: int
    forgotten: int  # p(c|R) N < 0.5
    single: int  # 0.5 <= p(c|R) N < 1.5
    kept: int
    error_before: float
    error_after: float


def prune_runs(directory: Path, below: float = SINGLE_POINT, data_dir: Path | None = None) -> Iterator[Pruned]:
    """Prune every network whose weights `directory` holds, and save the result in its folder `pruned`."""
    for run in finished_runs(directory, data_dir):
        yield _pruned(run, below)


def _pruned(run: FinishedRun, below: float) -> Pruned:
    n_train, network = run.record["n_train"], run.network
    try:
        smaller = prune(network, n_train, below)
    except NesiError as error:
        raise NesiError(f"{run.name}: {error}") from None
    file = run.directory.pruned_file(run.name)
    make_directory(file.parent)
    about = {key: run.record[key] for key in ("dataset", "network", "labels", "run", "seed")}
    smaller.save(file, {**about, "pruned_below": below})
    before, after = (which.percent_error(*run.test_set) for which in (network, smaller))
    usage = unit_usage(network.R, n_train)
    forgotten, single = int((usage < FORGOTTEN).sum()), int(((usage >= FORGOTTEN) & (usage < SINGLE_POINT)).sum())
    return Pruned(run.name, len(usage), forgotten, single, len(smaller.W), before, after)
