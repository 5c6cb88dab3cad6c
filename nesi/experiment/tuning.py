"""The tuning protocol of Section 4.1: choose the free parameters with no more labels than the setting has.

Half of the given labels train, the other half validates; both stay fixed for the whole search. The test set is not
touched, and no label beyond the given ones is looked at.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from nesi.config.parameters import ExperimentParameters
from nesi.config.reading import load_parameters
from nesi.config.sections import TuningOptions
from nesi.errors import NesiError, TrainingFailed
from nesi.experiment.cells import load_dataset
from nesi.experiment.trainers import new_trainer
from nesi.labels import UNLABELED, mask_labels, tuning_split
from nesi.networks import NETWORKS, get_network
from nesi.observations import about_empty_points, has_content
from nesi.report.figures import save_figure, search_picture
from nesi.seeds import random_stream
from nesi.storage.records import append_record, repair_records, write_text
from nesi.storage.tentative import tentative
from nesi.threads import limited_threads, threads_for

Values = dict[str, Any]
Trial = dict[str, Any]
TRIALS = "trials.jsonl"
_TRIAL_KEYS = {"run": int, "network": str, "values": dict, "error": (int, float), "errors": list}


@dataclass(frozen=True)
class TuningData:
    """All that the search may see. `labels` is -1 but for the training half of the given labels."""

    X: Any
    labels: np.ndarray
    X_validation: Any
    y_validation: np.ndarray
    n_classes: int


def tuning_data(parameters: ExperimentParameters, options: TuningOptions, dataset: Any) -> TuningData:
    """Split off what the search may see; validation points take no part in training, not even unlabeled."""
    filled = has_content(dataset.X_train)
    if not filled.all():
        sentence = about_empty_points(int((~filled).sum()), len(filled), learning=True)
        print(f"warning: {sentence}", file=sys.stderr)
    y = np.where(filled, np.asarray(dataset.y_train), UNLABELED)
    rng = random_stream(parameters.seed, "tuning labels", parameters.dataset, options.labels)
    trained, validating = tuning_split(y, options.labels, rng)
    kept = np.setdiff1d(np.flatnonzero(filled), validating)
    return TuningData(
        X=dataset.X_train[kept],
        labels=mask_labels(y, trained)[kept],
        X_validation=dataset.X_train[validating],
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
    quiet: bool = False,
) -> ExperimentParameters:
    """Search, and write `tuned.yaml`, `trials.jsonl` and `search.png` to `directory`; returns the tuned parameters."""
    options = parameters.tuning
    if options is None:
        raise NesiError(
            "there is nothing to tune: the parameter file has no section 'tuning' with 'labels' and 'grid'."
        )
    with tentative(directory, ["params.yaml"], lambda: (directory / TRIALS).exists()):
        known = _earlier_trials(parameters, directory, resume)
        data = tuning_data(parameters, options, load_dataset(parameters, data_dir))
        _check_grid(parameters, options, data)
        write_text(directory / "params.yaml", parameters.to_yaml())
        search = _Search(parameters, options, data, directory, known, quiet)
        with limited_threads(
            parameters.threads or threads_for(data.X, int(max(options.grid.get("C", [parameters.C]))))
        ):
            best = search.first_stage(optuna_trials)
            best |= search.second_stage(best)
        tuned = parameters.changed(**best)
        write_text(
            directory / "tuned.yaml",
            f"# Tuned with {options.labels} labels, half of them for validation.\n{tuned.to_yaml()}",
        )
        keys: list[str] = [key for key in options.grid if key in best]
        title = f"{parameters.dataset}: {len(search.trials)} trials, {len(data.y_validation)} validation labels"
        save_figure(search_picture(search.trials, keys, best, title), directory / "search.png")
    chosen = ", ".join(f"{key} = {value}" for key, value in best.items())
    print(f"chosen: {chosen}\nwritten: {directory / 'tuned.yaml'}, {directory / 'search.png'}")
    return tuned


class _Search:
    def __init__(
        self,
        parameters: ExperimentParameters,
        options: TuningOptions,
        data: TuningData,
        directory: Path,
        known: list[Trial],
        quiet: bool,
    ) -> None:
        self.parameters, self.options, self.data = parameters, options, data
        self.directory, self.quiet = directory, quiet
        self.trials: list[Trial] = []
        self._known = {_key(trial["network"], trial["values"]): trial for trial in known}

    def first_stage(self, optuna_trials: int | None) -> Values:
        """C, A and the learning rates of r-NeSi (of ff-NeSi if the file has no recurrent network)."""
        network = "r" if any(get_network(name).recurrent for name in self.parameters.networks) else "ff"
        grid: dict[str, list[Any]] = {key: values for key, values in self.options.grid.items() if key != "threshold"}
        if not grid:
            return {}
        evaluate: Callable[[Values], Trial] = lambda values: self.evaluate(network, values)  # noqa: E731
        if optuna_trials is not None:
            _search_with_optuna(evaluate, grid, optuna_trials, self.parameters.seed)
        else:
            for values in _combinations(grid):
                evaluate(values)
        return dict(_best([trial for trial in self.trials if trial["network"] == network])["values"])

    def second_stage(self, fixed: Values) -> Values:
        """Only the threshold, with everything else kept, for the networks that label their own data."""
        thresholds = self.options.grid.get("threshold")
        labeling = [name for name in self.parameters.networks if get_network(name).self_labeling]
        if not thresholds or not labeling:
            return {}
        network = max(labeling, key=lambda name: NETWORKS[name].recurrent)
        trials = [self.evaluate(network, {**fixed, "threshold": value}) for value in thresholds]
        return {"threshold": _best(trials)["values"]["threshold"]}

    def evaluate(self, network: str, values: Values) -> Trial:
        trial = self._known.get(_key(network, values))
        if trial is None:
            errors = [self._validation_error(network, values, repeat) for repeat in range(self.options.repeats)]
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

    def _validation_error(self, network: str, values: Values, repeat: int) -> float:
        """Every trial starts from the same random numbers: a difference is then due to the parameters."""
        data = self.data
        cell = self.parameters.for_cell(network, self.options.labels, len(data.labels)).changed(**values)
        rng = random_stream(self.parameters.seed, "tuning training", self.parameters.dataset, repeat)
        trainer = new_trainer(cell, network, data.X, data.labels, data.n_classes, rng, run=repeat + 1)
        with contextlib.suppress(TrainingFailed):
            for _ in trainer:
                pass
            return trainer.trained().percent_error(data.X_validation, data.y_validation)
        return 100.0  # useless weights are as wrong as can be


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


def _check_grid(parameters: ExperimentParameters, options: TuningOptions, data: TuningData) -> None:
    inputs = data.X.shape[1]
    for value in options.grid.get("A", [parameters.A]):
        if value <= inputs:
            raise NesiError(f"tuning.grid: A is {value}, but must be larger than the {inputs} inputs; leave it out.")
    for value in options.grid.get("C", []):
        if value != int(value) or value < 1:
            raise NesiError(f"tuning.grid: C is {value}, but must be an integer of at least 1.")
    for value in options.grid.get("threshold", []):
        if value > 1:
            raise NesiError(f"tuning.grid: threshold is {value}, but must lie between 0 and 1.")


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
