"""One run: draw labels, train, test once. Knows nothing of other runs, so it can be executed anywhere."""

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from nesi.checkpoints import Arrays, digest, load_arrays, save_arrays
from nesi.config import ExperimentParameters
from nesi.errors import NesiError
from nesi.first_layers import FirstLayerFile, has_common_first_layer
from nesi.networks import training_phases
from nesi.points import PointList, choose_points
from nesi.records import Record, StorageError
from nesi.seeds import random_stream
from nesi.threads import limited_threads

SETTINGS = (
    *("C", "A", "epsilon_W", "epsilon_R", "threshold", "iterations", "batch_size", "minibatch_rule", "inference"),
    *("backend", "dtype", "shuffle", "stopping", "greedy", "tolerance", "W_init", "R_init", "train_size"),
    "share_first_layer",
)
# These appear among the settings of a record only if they are not left at their defaults.
RARE_SETTINGS = (
    *("test_size", "iterations_R", "stopping_width", "class_assignment", "committee", "test_inference"),
    *("class_prior", "label_noise"),
)


class RunInterrupted(Exception):
    """The run was asked to stop; its checkpoint is written."""


@dataclass(frozen=True)
class RunTask:
    """One run of one cell of the table; `parameters` already has the overrides of its cell."""

    parameters: ExperimentParameters
    network: str
    labels: int
    run: int
    checkpoint: str | None = None

    @property
    def name(self) -> str:
        return f"{self.network}-L{self.labels}-run{self.run}"

    @property
    def total_iterations(self) -> int:
        """At most: training that converges ends earlier."""
        phases = training_phases(self.network, self.parameters.greedy)
        if (options := self.parameters.field_labels) is not None:
            goes_on = self.network.endswith("+") and options.by == "oracle"
            phases = ("both", *(phase for phase in phases if goes_on and phase != "first"))
        numbers = {"second": self.parameters.iterations_R or self.parameters.iterations}
        return sum(numbers.get(phase, self.parameters.iterations) for phase in phases)

    @property
    def keeps_weights(self) -> bool:
        keep = self.parameters.keep_weights
        return keep == "all" or (keep == "first" and self.run == 1)

    def settings(self) -> dict[str, Any]:
        settings = self.parameters.model_dump(mode="json", include=set(SETTINGS))
        settings |= self.parameters.model_dump(mode="json", include=set(RARE_SETTINGS), exclude_defaults=True)
        if self.parameters.legacy is not None and (legacy := self.parameters.legacy.for_record()):
            settings["legacy"] = legacy
        if self.parameters.inference == "truncated":
            settings["truncated"] = self.parameters.truncated.model_dump()
        if self.parameters.field_labels is not None:
            settings["field_labels"] = self.parameters.field_labels.model_dump()
        return settings

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to belong to this run."""
        parameters = self.parameters.model_dump(mode="json", include={"dataset", "data", "seed", "threads"})
        return {**parameters, "network": self.network, "labels": self.labels, "run": self.run, **self.settings()}


@dataclass(frozen=True)
class RunData:
    """What a run needs of a data set. `y_train` is used to draw labels (or by the oracle that labels fields) only,
    `y_test` for the final test error only."""

    name: str
    X_train: Any
    y_train: np.ndarray
    X_test: Any
    y_test: np.ndarray
    n_classes: int


@dataclass(frozen=True)
class Progress:
    """One iteration of one run has ended. `resumed` iterations were done by an earlier invocation."""

    name: str
    iteration: int
    iterations: int
    log_likelihood: float | None
    self_labeled: float | None
    resumed: bool = False


@dataclass(frozen=True)
class RunResult:
    """What comes back: the record, the small arrays for the figures, and the weights if they are kept."""

    record: Record
    details: Arrays
    weights: Arrays = field(default_factory=dict)


def train_run(
    task: RunTask,
    data: RunData,
    report: Callable[[Progress], None],
    should_stop: Callable[[], bool],
    warn: Callable[[str], None] = lambda sentence: None,
) -> RunResult:
    """Execute the run from its checkpoint, or from the start if there is none."""
    with limited_threads(task.parameters.threads):
        started = time.perf_counter()
        points = choose_points(task, data)
        X_train, labels = _training_set(data, points)
        chosen = _with_test_set(data, points)
        trainer = _trainer_for_field_labels(task, data, X_train) or _new_trainer(task, X_train, labels, data.n_classes)
        curve, seconds_before = _restore(task, trainer, warn)
        if trainer.iteration:
            report(Progress(task.name, trainer.iteration, task.total_iterations, None, None, resumed=True))
        if trainer.phase == "first" and task.checkpoint and has_common_first_layer(task.parameters, data.n_classes):
            seconds_before += _first_layer(task, chosen, trainer, curve, report, should_stop, started - seconds_before)
        _train(task, chosen, trainer, curve, report, should_stop, started - seconds_before)
        if task.parameters.class_assignment == "hard max":
            trainer.assign_hard_classes()
        result = _result(task, chosen, trainer, X_train, labels, points.labeled, curve, started - seconds_before)
        if len(labels) < len(data.y_train):
            result.details["training_points"] = points.training
        if len(points.test) < len(data.y_test):
            result.details["test_points"] = points.test
        return result


def _training_set(data: RunData, points: PointList) -> tuple[Any, np.ndarray]:
    """Inputs and labels (-1 = unlabeled)."""
    from nesi.labels import mask_labels

    training = points.training
    X = data.X_train if len(training) == len(data.y_train) else data.X_train[training]
    return X, mask_labels(data.y_train, points.labeled)[training]


def _with_test_set(data: RunData, points: PointList) -> RunData:
    if len(points.test) == len(data.y_test):
        return data
    return replace(data, X_test=data.X_test[points.test], y_test=data.y_test[points.test])


def _trainer_for_field_labels(task: RunTask, data: RunData, X: Any) -> Any:
    """None if it is points that are labeled, as usual."""
    if task.parameters.field_labels is None:
        return None
    from nesi.field_experiment import field_label_trainer

    return field_label_trainer(task, data, X)


def _new_trainer(task: RunTask, X: Any, labels: np.ndarray, n_classes: int) -> Any:
    from nesi.legacy.starts import start_R, start_W
    from nesi.training import Trainer

    parameters, legacy = task.parameters, task.parameters.legacy
    stream: tuple[str | int, ...] = ("training", parameters.dataset, task.network, task.labels, task.run)
    if has_common_first_layer(parameters, n_classes):
        stream = ("first layer", parameters.dataset, 0 if parameters.share_first_layer else task.run)
    rng = random_stream(parameters.seed, *stream)
    settings = training_settings(parameters, task.network)
    W_init = start_W(parameters, task.run, X, labels, n_classes, rng)
    R_init = start_R(parameters, task.run, n_classes, rng)
    if legacy is not None and legacy.unlabeled_top_layer:
        labels, n_classes = np.zeros(len(labels), dtype=np.int64), 1  # one class that has every point
    if legacy is not None and legacy.changes_training:
        from nesi.legacy.training import LegacyTrainer

        return LegacyTrainer(settings, X, labels, n_classes, rng, W_init, R_init, legacy)
    return Trainer(settings, X, labels, n_classes=n_classes, rng=rng, W_init=W_init, R_init=R_init)


def training_settings(parameters: ExperimentParameters, network: str) -> Any:
    """The part of the parameters that the trainer knows about."""
    from nesi.engines.truncated import TruncationSettings
    from nesi.training import TrainingSettings

    not_for_it = ("W_init", "R_init", "train_size", "share_first_layer")
    for_it = [key for key in (*SETTINGS, *RARE_SETTINGS) if key not in (*not_for_it, "test_size", "class_assignment")]
    chosen = {key: getattr(parameters, key) for key in for_it}
    search = TruncationSettings(**parameters.truncated.model_dump())
    return TrainingSettings(network=network, truncated=search, **chosen)


def _restore(task: RunTask, trainer: Any, warn: Callable[[str], None]) -> tuple[list[tuple[int, float]], float]:
    """Continue from the checkpoint. A damaged one costs time, not correctness: the run then starts from scratch."""
    path = Path(task.checkpoint) if task.checkpoint else None
    if path is None or not path.exists():
        return [], 0.0
    try:
        state = load_arrays(path, task.identity())
        curve = [(int(iteration), float(error)) for iteration, error in state.pop("test_error_curve")]
        seconds = float(state.pop("run_seconds"))
        trainer.restore(state)
    except (NesiError, KeyError) as error:
        warn(f"the checkpoint of {task.name} is not used, the run starts anew: {error}")
        return [], 0.0
    return curve, seconds


def _first_layer(
    task: RunTask,
    data: RunData,
    trainer: Any,
    curve: list[tuple[int, float]],
    report: Callable[[Progress], None],
    should_stop: Callable[[], bool],
    started: float,
) -> float:
    """Train the first layer, or take it from a run that has; the seconds that somebody else has spent on it."""
    layer = FirstLayerFile(task.identity(), trainer.batch_size, str(task.checkpoint))
    with layer.reserved(should_stop) as reserved:
        if not reserved:
            raise RunInterrupted(task.name)
        seconds = None if task.parameters.test_error_every else layer.load(trainer)  # a curve wants every iteration
        if seconds is not None:
            report(Progress(task.name, trainer.iteration, task.total_iterations, None, None, resumed=True))
            return seconds
        _train(task, data, trainer, curve, report, should_stop, started, only_first_layer=True)
        layer.save(trainer, time.perf_counter() - started)
        return 0.0


def _train(
    task: RunTask,
    data: RunData,
    trainer: Any,
    curve: list[tuple[int, float]],
    report: Callable[[Progress], None],
    should_stop: Callable[[], bool],
    started: float,
    only_first_layer: bool = False,
) -> None:
    saved = time.monotonic()
    every = task.parameters.test_error_every
    if trainer.finished:
        return
    for info in trainer:
        report(
            Progress(
                task.name,
                info.iteration,
                task.total_iterations,
                _number(info.log_likelihood),
                _number(info.self_labeled),
            )
        )
        if every and info.iteration % every == 0:  # only when the user asked to look at the test set during training
            curve.append((int(info.iteration), _test_error(trainer, data)[0]))
        stop = should_stop()
        if task.checkpoint and (stop or time.monotonic() - saved >= task.parameters.checkpoint_seconds):
            _save_checkpoint(task, trainer, curve, time.perf_counter() - started)
            saved = time.monotonic()
        if stop:
            raise RunInterrupted(task.name)
        if only_first_layer and trainer.phase != "first":
            return


def _save_checkpoint(task: RunTask, trainer: Any, curve: list[tuple[int, float]], seconds: float) -> None:
    path = Path(task.checkpoint or "")
    extra = {"test_error_curve": np.array(curve, dtype=float).reshape(-1, 2), "run_seconds": np.array(seconds)}
    try:
        save_arrays(path, {**trainer.state(), **extra}, task.identity())
    except StorageError:
        if not path.parent.is_dir():  # the directory was taken away: say so, rather than "no such file"
            raise StorageError(f"cannot write {path}: its directory has disappeared.") from None
        raise


def _test_error(trainer: Any, data: RunData) -> tuple[float, np.ndarray]:
    """Test error in percent and the confusion counts (true class, predicted class)."""
    predicted = np.argmax(trainer.posterior(data.X_test), axis=1)
    confusion = np.zeros((data.n_classes, data.n_classes), dtype=np.int64)
    np.add.at(confusion, (data.y_test, predicted), 1)
    return 100.0 * float(np.mean(predicted != data.y_test)), confusion


def _result(
    task: RunTask,
    data: RunData,
    trainer: Any,
    X_train: Any,
    labels: np.ndarray,
    labeled: np.ndarray,
    curve: list[tuple[int, float]],
    started: float,
) -> RunResult:
    log_likelihood = float(np.mean(trainer.log_likelihood(X_train, labels)))
    test_error, confusion = None, np.zeros((0, 0), dtype=np.int64)
    if len(data.y_test) and not _waits_for_a_person(task):
        test_error, confusion = _test_error(trainer, data)
    R = np.asarray(trainer.R)
    if len(R) == 1:  # the class layer learned without labels: the same for every class
        R = np.repeat(R, data.n_classes, axis=0)
    weights = {"W": np.asarray(trainer.W), "R": R}
    parameters = task.parameters
    record: Record = {
        "dataset": parameters.dataset,
        "experiment": parameters.experiment or parameters.dataset,
        "network": task.network,
        "labels": task.labels,
        "run": task.run,
        "seed": parameters.seed,
        "test_error": test_error,
        "log_likelihood": log_likelihood,
        "iterations": int(trainer.iteration),
        "stopped_at": None if trainer.stopped_at is None else int(trainer.stopped_at),
        "converged_at": None if trainer.converged_at is None else int(trainer.converged_at),
        "seconds": round(time.perf_counter() - started, 3),
        "inference": parameters.inference,
        "backend": parameters.backend,
        "threads": parameters.threads,
        "n_train": int(X_train.shape[0]),
        "n_test": len(data.y_test),
        "labeled_sha256": hashlib.sha256(labeled.astype("<i8").tobytes()).hexdigest(),
        "weights_sha256": digest(weights),
        "settings": task.settings(),
        "versions": versions(),
    }
    details: Arrays = {name: np.asarray(values, dtype=float) for name, values in trainer.history.items()}
    details["test_error_curve"] = np.array(curve, dtype=float).reshape(-1, 2)
    details["confusion"] = confusion
    details["labeled"] = labeled.astype(np.int64)
    if getattr(trainer, "log_likelihood_at_start", None) is not None:
        details["log_likelihood_at_start"] = np.asarray(trainer.log_likelihood_at_start)
    if parameters.field_labels is not None:
        from nesi.field_experiment import about_field_labels

        about, answers = about_field_labels(parameters.field_labels, trainer)
        record["field_labels"] = about
        details |= answers
    return RunResult(record, details, weights if task.keeps_weights else {})


def _waits_for_a_person(task: RunTask) -> bool:
    """Nobody has said yet what the fields are: there is nothing to test."""
    return task.parameters.field_labels is not None and task.parameters.field_labels.by == "person"


def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"python": platform.python_version()}
    for package in ("nesi", "numpy", "scipy", "pytensor", "numba"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
