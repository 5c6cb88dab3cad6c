"""One run: draw labels, train, test once. Knows nothing of other runs, so it can be executed anywhere."""

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nesi.checkpoints import Arrays, digest, load_arrays, save_arrays
from nesi.config import ExperimentParameters
from nesi.errors import NesiError
from nesi.first_layers import FirstLayerFile, has_common_first_layer
from nesi.networks import training_phases
from nesi.records import Record, StorageError
from nesi.seeds import random_stream
from nesi.threads import limited_threads

SETTINGS = (
    *("C", "A", "epsilon_W", "epsilon_R", "threshold", "iterations", "batch_size", "minibatch_rule", "inference"),
    *("backend", "dtype", "shuffle", "stopping", "greedy", "tolerance", "W_init", "R_init", "train_size"),
    *("share_first_layer", "committee"),
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
        return self.parameters.iterations * len(training_phases(self.network, self.parameters.greedy))

    @property
    def keeps_weights(self) -> bool:
        keep = self.parameters.keep_weights
        return keep == "all" or (keep == "first" and self.run == 1)

    def settings(self) -> dict[str, Any]:
        settings = {key: getattr(self.parameters, key) for key in SETTINGS}
        if self.parameters.inference == "truncated":
            settings["truncated"] = self.parameters.truncated.model_dump()
        return settings

    def identity(self) -> dict[str, Any]:
        """What a checkpoint must agree with to belong to this run."""
        parameters = self.parameters.model_dump(mode="json", include={"dataset", "data", "seed", "threads"})
        return {**parameters, "network": self.network, "labels": self.labels, "run": self.run, **self.settings()}


@dataclass(frozen=True)
class RunData:
    """What a run needs of a data set. `y_train` is used to draw labels only, `y_test` for the final test error only."""

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
        X_train, labels, labeled = _training_set(task, data)
        trainer = _new_trainer(task, X_train, labels, data.n_classes)
        curve, seconds_before = _restore(task, trainer, warn)
        if trainer.iteration:
            report(Progress(task.name, trainer.iteration, task.total_iterations, None, None, resumed=True))
        if trainer.phase == "first" and task.checkpoint and has_common_first_layer(task.parameters, data.n_classes):
            seconds_before += _first_layer(task, data, trainer, curve, report, should_stop, started - seconds_before)
        _train(task, data, trainer, curve, report, should_stop, started - seconds_before)
        return _result(task, data, trainer, X_train, labels, labeled, curve, started - seconds_before)


def _training_set(task: RunTask, data: RunData) -> tuple[Any, np.ndarray, np.ndarray]:
    """Inputs, labels (-1 = unlabeled) and the indices of the labeled points within the whole training set.

    The streams leave the network out: all four networks see the same labels in the same run.
    """
    from nesi.labels import draw_labels, mask_labels

    seed = task.parameters.seed
    X, y = data.X_train, data.y_train
    points = np.arange(len(y))
    if task.parameters.train_size is not None and task.parameters.train_size < len(y):
        rng = random_stream(seed, "points", data.name, task.parameters.train_size, task.run)
        points = np.sort(rng.choice(len(y), size=task.parameters.train_size, replace=False))
        X, y = X[points], y[points]
    labeled = draw_labels(y, task.labels, random_stream(seed, "labels", data.name, task.labels, task.run))
    return X, mask_labels(y, labeled), np.sort(points[labeled])


def _new_trainer(task: RunTask, X: Any, labels: np.ndarray, n_classes: int) -> Any:
    from nesi.training import Trainer

    parameters = task.parameters
    stream: tuple[str | int, ...] = ("training", parameters.dataset, task.network, task.labels, task.run)
    if has_common_first_layer(parameters, n_classes):
        stream = ("first layer", parameters.dataset, 0 if parameters.share_first_layer else task.run)
    rng = random_stream(parameters.seed, *stream)
    return Trainer(
        training_settings(parameters, task.network),
        X,
        labels,
        n_classes=n_classes,
        rng=rng,
        W_init=parameters.W_init,
        R_init=parameters.R_init,
    )


def training_settings(parameters: ExperimentParameters, network: str) -> Any:
    """The part of the parameters that the trainer knows about."""
    from nesi.engines.truncated import TruncationSettings
    from nesi.training import TrainingSettings

    not_for_it = ("W_init", "R_init", "train_size", "share_first_layer")
    chosen = {key: getattr(parameters, key) for key in SETTINGS if key not in not_for_it}
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
    test_error, confusion = _test_error(trainer, data) if len(data.y_test) else (None, np.zeros((0, 0), dtype=np.int64))
    weights = {"W": np.asarray(trainer.W), "R": np.asarray(trainer.R)}
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
    return RunResult(record, details, weights if task.keeps_weights else {})


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
