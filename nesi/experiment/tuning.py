"""The tuning protocol of Section 4.1: choose the free parameters with no more labels than the setting has.

Half of the given labels train, the other half validates; both stay fixed for the whole search. The test set is not
touched, and no label beyond the given ones is looked at.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_tools.dataset import Dataset, Matrix
from data_tools.rows_on_disk import chosen_rows
from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import load_parameters
from nesi.config.sections import TuningOptions
from nesi.errors import NesiError, TrainingFailed
from nesi.experiment.cells import load_dataset
from nesi.experiment.choices import with_choices
from nesi.experiment.default_grid import complete_options
from nesi.experiment.trainers import new_trainer
from nesi.labels import UNLABELED, mask_labels, tuning_split
from nesi.networks import NETWORKS, get_network
from nesi.observations import about_empty_points, has_content, larger_than_the_inputs
from nesi.report.figures import save_figure, search_picture
from nesi.seeds import random_stream
from nesi.storage.records import append_record, repair_records, write_text
from nesi.storage.tentative import tentative
from nesi.threads import limited_threads, thread_environment, threads_for

Values = dict[str, Any]
Trial = dict[str, Any]
Grid = dict[str, list[Any]]
TRIALS = "trials.jsonl"
_TRIAL_KEYS = {"run": int, "network": str, "values": dict, "error": (int, float), "errors": list}


@dataclass(frozen=True)
class TuningData:
    """All that the search may see. `labels` is -1 but for the training half of the given labels."""

    X: Matrix
    labels: np.ndarray
    X_validation: Matrix
    y_validation: np.ndarray
    n_classes: int


def tuning_data(parameters: ExperimentParameters, options: TuningOptions, dataset: Dataset) -> TuningData:
    """Split off what the search may see; validation points take no part in training, not even unlabeled."""
    filled = has_content(dataset.X_train)
    if not filled.all():
        sentence = about_empty_points(int((~filled).sum()), len(filled), learning=True)
        print(f"warning: {sentence}", file=sys.stderr)
    y = np.where(filled, np.asarray(dataset.y_train), UNLABELED)
    assert options.labels is not None  # filled in by `complete_options`
    rng = random_stream(parameters.seed, "tuning labels", parameters.dataset, options.labels)
    trained, validating = tuning_split(y, options.labels, rng)
    kept = np.setdiff1d(np.flatnonzero(filled), validating)
    return TuningData(
        X=chosen_rows(dataset.X_train, kept),
        labels=mask_labels(y, trained)[kept],
        X_validation=chosen_rows(dataset.X_train, validating),
        y_validation=y[validating],
        n_classes=len(dataset.class_names),
    )


def tune(
    parameters: ExperimentParameters,
    directory: Path,
    *,
    resume: bool = False,
    optuna_trials: int | None = None,
    data_dir: Path | None = None,
    workers: int | None = None,
    quiet: bool = False,
) -> ExperimentParameters:
    """Search, and write `tuned.yaml`, `trials.jsonl` and `search.png` to `directory`; returns the tuned parameters."""
    if workers is not None and optuna_trials is not None:
        raise NesiError(
            "--workers is for the grid, whose trials don't depend on each other; leave it out with --optuna."
        )
    dataset = load_dataset(parameters, data_dir)
    parameters = with_choices(parameters, dataset)
    options = complete_options(parameters, dataset)
    parameters = parameters.changed(tuning=options)
    assert options.labels is not None
    with tentative(directory, ["params.yaml"], lambda: (directory / TRIALS).exists()):
        known = _earlier_trials(parameters, directory, resume)
        data = tuning_data(parameters, options, dataset)
        grid = _checked_grid(parameters, options, data)
        write_text(directory / "params.yaml", parameters.to_yaml())
        search = _Search(parameters, grid, data, directory, known, quiet)
        threads = parameters.threads or threads_for(data.X, int(max(grid.get("C", [parameters.C]))))
        with limited_threads(threads), search.executed_by(workers):
            best = search.first_stage(optuna_trials)
            best |= search.second_stage(best)
        tuned = parameters.changed(**best)
        write_text(
            directory / "tuned.yaml",
            f"# Tuned with {options.labels} labels, half of them for validation.\n{tuned.to_yaml()}",
        )
        keys: list[str] = [key for key in grid if key in best]
        title = f"{parameters.dataset}: {len(search.trials)} trials, {len(data.y_validation)} validation labels"
        save_figure(search_picture(search.trials, keys, best, title), directory / "search.png")
    chosen = ", ".join(f"{key} = {value}" for key, value in best.items())
    print(f"chosen: {chosen}\nwritten: {directory / 'tuned.yaml'}, {directory / 'search.png'}")
    return tuned


class _Search:
    def __init__(
        self,
        parameters: ExperimentParameters,
        grid: Grid,
        data: TuningData,
        directory: Path,
        known: list[Trial],
        quiet: bool,
    ) -> None:
        self.parameters, self.grid, self.data = parameters, grid, data
        self.directory, self.quiet = directory, quiet
        self._pool: ProcessPoolExecutor | None = None
        self.trials: list[Trial] = []
        self._known = {_key(trial["network"], trial["values"]): trial for trial in known}

    @contextlib.contextmanager
    def executed_by(self, workers: int | None) -> Iterator[None]:
        """Trials of a grid in parallel, each in one thread of a process of its own; one after the other by default."""
        if workers is None or workers == 1:
            yield
            return
        # spawn, not fork: numba's and BLAS's threads do not survive a fork.
        context, given = multiprocessing.get_context("spawn"), (self.parameters, self.data)
        with thread_environment(1), ProcessPoolExecutor(workers, context, _prepare_worker, given) as self._pool:
            try:
                yield
            except BaseException:
                self._pool.shutdown(cancel_futures=True)
                raise

    def first_stage(self, optuna_trials: int | None) -> Values:
        """C, A and the learning rates of r-NeSi (of ff-NeSi if the file has no recurrent network)."""
        network = "r" if any(get_network(name).recurrent for name in self.parameters.networks) else "ff"
        grid = {key: values for key, values in self.grid.items() if key != "threshold"}
        if not grid:
            return {}
        if optuna_trials is not None:
            _search_with_optuna(
                lambda values: self.evaluate_all(network, [values])[0], grid, optuna_trials, self.parameters.seed
            )
        else:
            self.evaluate_all(network, list(_combinations(grid)))
        return dict(_best([trial for trial in self.trials if trial["network"] == network])["values"])

    def second_stage(self, fixed: Values) -> Values:
        """Only the threshold, with everything else kept, for the networks that label their own data."""
        thresholds = self.grid.get("threshold")
        labeling = [name for name in self.parameters.networks if get_network(name).self_labeling]
        if not thresholds or not labeling:
            return {}
        network = max(labeling, key=lambda name: NETWORKS[name].recurrent)
        trials = self.evaluate_all(network, [{**fixed, "threshold": value} for value in thresholds])
        return {"threshold": _best(trials)["values"]["threshold"]}

    def evaluate_all(self, network: str, several: list[Values]) -> list[Trial]:
        """In the given order, whoever executes them; a trial that is known is not made again."""
        new = [values for values in several if _key(network, values) not in self._known]
        made: Iterator[list[float]]
        if self._pool is None:
            made = (validation_errors(self.parameters, self.data, network, values) for values in new)
        else:
            made = self._pool.map(_errors_by_worker, [network] * len(new), new)
        return [self._noted(network, values, made) for values in several]

    def _noted(self, network: str, values: Values, made: Iterator[list[float]]) -> Trial:
        trial = self._known.get(_key(network, values))
        if trial is None:
            errors = next(made)
            trial = {
                "run": len(self.trials) + 1,
                "network": network,
                "values": values,
                "error": float(np.mean(errors)),
                "errors": errors,
            }
            append_record(self.directory, trial, TRIALS)
        self.trials.append(trial)
        if not self.quiet:
            shown = ", ".join(f"{key} = {value:g}" for key, value in values.items())
            print(f"[{len(self.trials)}] {network}: {shown}: {trial['error']:.2f} % validation error", flush=True)
        return trial


def validation_errors(parameters: ExperimentParameters, data: TuningData, network: str, values: Values) -> list[float]:
    """One for each repeat. Every trial starts from the same random numbers: a difference is due to the parameters."""
    options = parameters.tuning
    assert options is not None
    assert options.labels is not None
    errors = []
    for repeat in range(options.repeats):
        cell = parameters.for_cell(network, options.labels, len(data.labels)).changed(**values)
        rng = random_stream(parameters.seed, "tuning training", parameters.dataset, repeat)
        trainer = new_trainer(cell, network, data.X, data.labels, data.n_classes, rng, run=repeat + 1)
        error = 100.0  # useless weights are as wrong as can be
        with contextlib.suppress(TrainingFailed):
            for _ in trainer:
                pass
            error = trainer.trained().percent_error(data.X_validation, data.y_validation)
        errors.append(error)
    return errors


_OF_THIS_WORKER: list[tuple[ExperimentParameters, TuningData]] = []


def _prepare_worker(parameters: ExperimentParameters, data: TuningData) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends the workers
    _OF_THIS_WORKER[:] = [(parameters, data)]


def _errors_by_worker(network: str, values: Values) -> list[float]:
    with limited_threads(1):
        return validation_errors(*_OF_THIS_WORKER[0], network, values)


def _best(trials: list[Trial]) -> Trial:
    """The lowest error; among equals the smallest network, then the first one: few labels give many ties."""
    return min(trials, key=lambda trial: (round(trial["error"], 6), trial["values"].get("C", 0), trial["run"]))


def _combinations(grid: dict[str, list[Any]]) -> Iterator[Values]:
    for values in itertools.product(*grid.values()):
        yield _typed(dict(zip(grid, values, strict=True)))


def _typed(values: Values) -> Values:
    return {key: int(value) if key == "C" else float(value) for key, value in values.items()}


def _search_with_optuna(
    evaluate: Callable[[Values], Trial], grid: dict[str, list[Any]], trials: int, seed: int
) -> None:
    """Between the smallest and the largest value of each list; the same seed asks for the same trials."""
    try:
        import optuna
    except ImportError:
        raise NesiError("--optuna needs Optuna; install it with: pip install 'nesi[tune]'.") from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def objective(trial: Any) -> float:
        values: Values = {}
        for key, candidates in grid.items():
            low, high = min(candidates), max(candidates)
            if key == "C":
                values[key] = trial.suggest_int(key, int(low), int(high), log=True)
            else:
                values[key] = trial.suggest_float(key, float(low), float(high), log=key != "A" and low > 0)
        return float(evaluate(_typed(values))["error"])

    sampler = optuna.samplers.TPESampler(seed=seed % 2**32)
    optuna.create_study(direction="minimize", sampler=sampler).optimize(objective, n_trials=trials)


def _checked_grid(parameters: ExperimentParameters, options: TuningOptions, data: TuningData) -> Grid:
    inputs, grid = data.X.shape[1], options.grid or {}
    for value in grid.get("A", [parameters.A]):
        if value <= inputs:
            raise NesiError(f"tuning.grid: A is {value:g}, but {larger_than_the_inputs(inputs)}")
    for value in grid.get("C", []):
        if value != int(value) or value < 1:
            raise NesiError(f"tuning.grid: C is {value}, but must be an integer of at least 1.")
    for value in grid.get("threshold", []):
        if value > 1:
            raise NesiError(f"tuning.grid: threshold is {value}, but must lie between 0 and 1.")
    return grid


def _earlier_trials(parameters: ExperimentParameters, directory: Path, resume: bool) -> list[Trial]:
    path = directory / "params.yaml"
    if not path.exists():
        return []
    if not resume:
        raise NesiError(f"{directory} already holds a search; add --resume to continue it, or choose another --out.")
    if load_parameters(path) != parameters:
        raise NesiError(f"{directory} was started with other parameters; repeat them, or choose another --out.")
    return repair_records(directory, TRIALS, _TRIAL_KEYS)


def _key(network: str, values: Values) -> str:
    return json.dumps([network, _typed(values)], sort_keys=True)
