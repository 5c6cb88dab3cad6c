"""One run: draw labels, train, test once. Knows nothing of other runs, so it can be executed anywhere."""

import hashlib
import importlib.metadata
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nesi.checkpoints import Arrays, digest, load_arrays, save_arrays
from nesi.errors import NesiError
from nesi.first_layers import FirstLayerFile, has_common_first_layer
from nesi.points import PointList, choose_points
from nesi.records import Record, StorageError
from nesi.run_task import Progress, RunData, RunResult, RunTask, training_settings
from nesi.seeds import random_stream
from nesi.stopping import self_labeling_advice
from nesi.threads import limited_threads


class RunInterrupted(Exception):
    """The run was asked to stop; its checkpoint is written."""


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
        trainer = _trainer_for_field_labels(task, data, X_train) or _new_trainer(task, X_train, labels, data.n_classes)
        sitting = _Sitting(task, _with_test_set(data, points), trainer, report, should_stop, started)
        sitting.restore(warn)
        if trainer.phase == "first" and task.checkpoint and has_common_first_layer(task.parameters, data.n_classes):
            sitting.first_layer()
        sitting.train()
        if task.labels_points_itself:
            advice = self_labeling_advice(trainer.history["self_labeled"], float(np.mean(labels < 0)))
            if advice is not None:
                warn(f"{task.name}: {advice}")
        if task.parameters.class_assignment == "hard max":
            trainer.assign_hard_classes()
        result = sitting.result(X_train, labels, points.labeled)
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


class _Sitting:
    """A run while it is being executed; it may have been begun, and interrupted, before."""

    def __init__(
        self,
        task: RunTask,
        data: RunData,
        trainer: Any,
        report: Callable[[Progress], None],
        should_stop: Callable[[], bool],
        started: float,
    ) -> None:
        self.task, self.data, self.trainer = task, data, trainer
        self._report, self._should_stop = report, should_stop
        self._started = started  # moved back by the seconds of earlier sittings
        self._curve: list[tuple[int, float]] = []

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._started

    def restore(self, warn: Callable[[str], None]) -> None:
        """Continue from the checkpoint. A damaged one costs time, not correctness: the run then starts from scratch."""
        path = Path(self.task.checkpoint) if self.task.checkpoint else None
        if path is None or not path.exists():
            return
        try:
            state = load_arrays(path, self.task.identity())
            curve = [(int(iteration), float(error)) for iteration, error in state.pop("test_error_curve")]
            seconds = float(state.pop("run_seconds"))
            self.trainer.restore(state)
        except (NesiError, KeyError) as error:
            warn(f"the checkpoint of {self.task.name} is not used, the run starts anew: {error}")
            return
        self._curve = curve
        self._takes_over(seconds)

    def _takes_over(self, seconds: float) -> None:
        self._started -= seconds
        if self.trainer.iteration:
            done, total = self.trainer.iteration, self.task.total_iterations
            self._report(Progress(self.task.name, done, total, None, None, resumed=True))

    def first_layer(self) -> None:
        """Train the first layer, or take it from a run that has."""
        layer = FirstLayerFile(self.task.identity(), self.trainer.batch_size, str(self.task.checkpoint))
        with layer.reserved(self._should_stop) as reserved:
            if not reserved:
                raise RunInterrupted(self.task.name)
            wants_every_iteration = self.task.parameters.test_error_every > 0  # for the curve
            seconds = None if wants_every_iteration else layer.load(self.trainer)
            if seconds is not None:
                self._takes_over(seconds)
                return
            self.train(only_first_layer=True)
            layer.save(self.trainer, self.seconds)

    def train(self, only_first_layer: bool = False) -> None:
        task, saved = self.task, time.monotonic()
        every = task.parameters.test_error_every
        if self.trainer.finished:
            return
        for info in self.trainer:
            values = _number(info.log_likelihood), _number(info.self_labeled)
            self._report(Progress(task.name, info.iteration, task.total_iterations, *values))
            if every and info.iteration % every == 0:  # only if the user asked to look at the test set during training
                self._curve.append((int(info.iteration), self._test_error()[0]))
            stop = self._should_stop()
            if task.checkpoint and (stop or time.monotonic() - saved >= task.parameters.checkpoint_seconds):
                self._save_checkpoint()
                saved = time.monotonic()
            if stop:
                raise RunInterrupted(task.name)
            if only_first_layer and self.trainer.phase != "first":
                return

    def _save_checkpoint(self) -> None:
        path = Path(self.task.checkpoint or "")
        extra = {"test_error_curve": self._curve_array(), "run_seconds": np.array(self.seconds)}
        try:
            save_arrays(path, {**self.trainer.state(), **extra}, self.task.identity())
        except StorageError:
            if not path.parent.is_dir():  # the directory was taken away: say so, rather than "no such file"
                raise StorageError(f"cannot write {path}: its directory has disappeared.") from None
            raise

    def _curve_array(self) -> np.ndarray:
        return np.array(self._curve, dtype=float).reshape(-1, 2)

    def _test_error(self) -> tuple[float, np.ndarray]:
        """Test error in percent and the confusion counts (true class, predicted class)."""
        data = self.data
        predicted = np.argmax(self.trainer.posterior(data.X_test), axis=1)
        confusion = np.zeros((data.n_classes, data.n_classes), dtype=np.int64)
        np.add.at(confusion, (data.y_test, predicted), 1)
        return 100.0 * float(np.mean(predicted != data.y_test)), confusion

    def result(self, X_train: Any, labels: np.ndarray, labeled: np.ndarray) -> RunResult:
        task, data, trainer = self.task, self.data, self.trainer
        log_likelihood = float(np.mean(trainer.log_likelihood(X_train, labels)))
        test_error, confusion = None, np.zeros((0, 0), dtype=np.int64)
        if len(data.y_test) and not _waits_for_a_person(task):
            test_error, confusion = self._test_error()
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
            "seconds": round(self.seconds, 3),
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
        details["test_error_curve"] = self._curve_array()
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


def _number(value: float) -> float | None:
    """None for what is not known, such as the likelihood while only the second layer learns."""
    return float(value) if np.isfinite(value) else None
