"""One run: draw labels, train, test once. Knows nothing of other runs, so it can be executed anywhere."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

import nesi
from data_tools.dataset import Matrix
from data_tools.rows_on_disk import chosen_rows
from nesi.errors import NesiError
from nesi.experiment.field_runs import about_field_labels, field_label_trainer
from nesi.experiment.first_layers import FirstLayerFile, has_common_first_layer, reserved
from nesi.experiment.likeness import QUANTILES, log_likelihood_quantiles
from nesi.experiment.point_choice import PointList, choose_points
from nesi.experiment.shown_points import shown_points, within_data_set
from nesi.experiment.tasks import Progress, RunData, RunResult, RunTask, training_settings
from nesi.experiment.trainers import trainer_of_run
from nesi.fields.labels import with_hard_classes
from nesi.fields.training import FieldLabelTrainer
from nesi.labels import mask_labels
from nesi.posteriors import percent_error
from nesi.spreading.spread import spreading_advice
from nesi.storage.arrays import Arrays, digest, load_arrays, save_arrays
from nesi.storage.experiment_directory import FIRST_LAYER_PREFIX
from nesi.storage.records import Record, StorageError
from nesi.threads import limited_threads
from nesi.trained import TrainedNetwork
from nesi.training.side_by_side import SideBySideTrainer
from nesi.training.stopping import longer_or_faster, self_labeling_advice
from nesi.training.team import Team
from nesi.training.trainer import Trainer


class RunInterrupted(Exception):
    """The run was asked to stop; its checkpoint is written."""


def train_run(
    task: RunTask,
    data: RunData,
    report: Callable[[Progress], None],
    should_stop: Callable[[], bool],
    warn: Callable[[str], None] = lambda sentence: None,
    team: Team | None = None,
) -> RunResult:
    """Execute the run from its checkpoint, or from the start if there is none; `team`: who trains it together."""
    with limited_threads(task.parameters.threads):
        started = time.perf_counter()
        points = choose_points(task, data)
        X_train, labels = _training_set(data, points)
        trainer: Trainer | FieldLabelTrainer
        if task.parameters.field_labels is not None:
            trainer = field_label_trainer(task, data, X_train, data.y_train[points.training])
        else:
            trainer = trainer_of_run(task, X_train, labels, data.n_classes, team)
        run = RunInProgress(task, _with_test_set(data, points), trainer, report, should_stop, started)
        if isinstance(trainer, SideBySideTrainer) and task.checkpoint:
            run.train_beside_others(warn)
        else:
            run.restore(warn)
        if trainer.phase == "first" and task.checkpoint and has_common_first_layer(task.parameters, data.n_classes):
            run.first_layer()
        run.train()
        if task.labels_points_itself and task.parameters.spread is None:
            settings = task.parameters
            more, faster = longer_or_faster(settings.iterations_R or settings.iterations, settings.epsilon_R)
            name = "iterations_R" if settings.greedy else "iterations"
            remedy = f"--set {name}={more}, or epsilon_R={faster:g}"
            advice = self_labeling_advice(trainer.history["self_labeled"], float(np.mean(labels < 0)), remedy)
            if advice is not None:
                warn(f"{task.name}: {advice}")
        if (advice := spreading_advice(trainer.account().get("spread"))) is not None:
            warn(f"{task.name}: {advice}")
        network = trainer.trained()
        if task.parameters.class_assignment == "hard max":
            network = with_hard_classes(network, trainer.activities(), labels)
        result = run.result(network, X_train, labels, points.labeled)
        if result.shown:
            result.shown["point_rows"] = within_data_set(result.shown, points)
        if len(labels) < len(data.y_train):
            result.details["training_points"] = points.training
        if len(points.test) < len(data.y_test):
            result.details["test_points"] = points.test
        return result


def _training_set(data: RunData, points: PointList) -> tuple[Matrix, np.ndarray]:
    """Inputs and labels (-1 = unlabeled)."""
    training = points.training
    X = data.X_train if len(training) == len(data.y_train) else chosen_rows(data.X_train, training)
    return X, mask_labels(data.y_train, points.labeled)[training]


def _with_test_set(data: RunData, points: PointList) -> RunData:
    if len(points.test) == len(data.y_test):
        return data
    return replace(data, X_test=chosen_rows(data.X_test, points.test), y_test=data.y_test[points.test])


class RunInProgress:
    """A run while it is being executed; it may have been begun, and interrupted, before."""

    def __init__(
        self,
        task: RunTask,
        data: RunData,
        trainer: Trainer | FieldLabelTrainer,
        report: Callable[[Progress], None],
        should_stop: Callable[[], bool],
        started: float,
    ) -> None:
        self.task, self.data, self.trainer = task, data, trainer
        self._report, self._should_stop = report, should_stop
        self._started = started  # moved back by the seconds that were spent before an interruption
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
            warn(f"the checkpoint of {self.task.name} is not used, the run starts from scratch: {error}")
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
        assert isinstance(self.trainer, Trainer)  # fields get their labels without greedy training of points
        layer = FirstLayerFile(self.task.identity(), self.trainer.batch_size, str(self.task.checkpoint))
        with reserved(layer.lock_file, self._should_stop) as ours:
            if not ours:
                raise RunInterrupted(self.task.name)
            wants_every_iteration = self.task.parameters.test_error_every > 0  # for the curve
            seconds = None if wants_every_iteration else layer.load(self.trainer)
            if seconds is not None:
                self._takes_over(seconds)
                return
            self.train(only_first_layer=True)
            layer.save(self.trainer, self.seconds)

    def train_beside_others(self, warn: Callable[[str], None]) -> None:
        """Train the class layers of other runs as well, or find that another run has trained ours.

        What is done of another run is left as its checkpoint, from which it is continued, or finished, by itself.
        """
        task, trainer = self.task, self.trainer
        assert isinstance(trainer, SideBySideTrainer)
        with reserved(self._file_of(f"{FIRST_LAYER_PREFIX}of-run{task.run}.lock"), self._should_stop) as ours:
            if not ours:
                raise RunInterrupted(task.name)
            for other in task.companions:
                if not self._file_of(f"{other.name}.npz").exists():
                    labels = _training_set(self.data, choose_points(other, self.data))[1]
                    settings = training_settings(other.parameters, other.network)
                    trainer.add_companion(other.name, settings, labels)
            self.restore(warn)
            self.train()
            self._leave_companions(trainer, everyone=True)

    def _leave_companions(self, trainer: SideBySideTrainer, everyone: bool) -> None:
        """Write the checkpoints of those that have had all their iterations, or of everyone."""
        others = {other.name: other for other in self.task.companions}
        for name in [name for name in trainer.companions if everyone or trainer.is_done(name)]:
            extra = {"test_error_curve": self._curve_array()[:0], "run_seconds": np.array(self.seconds)}
            path = self._file_of(f"{name}.npz")
            save_arrays(path, {**trainer.state_of(name), **extra}, others[name].identity())
            del trainer.companions[name]

    def _file_of(self, name: str) -> Path:
        return Path(str(self.task.checkpoint)).with_name(name)

    def train(self, only_first_layer: bool = False) -> None:
        task, saved = self.task, time.monotonic()
        every = task.parameters.test_error_every
        if self.trainer.finished:
            return
        for info in self.trainer:
            values = _number(info.log_likelihood), _number(info.self_labeled)
            self._report(Progress(task.name, info.iteration, task.total_iterations, *values))
            if every and info.iteration % every == 0:  # only if the user asked to look at the test set during training
                error = self.trainer.trained().percent_error(self.data.X_test, self.data.y_test)
                self._curve.append((int(info.iteration), error))
            if isinstance(self.trainer, SideBySideTrainer):
                self._leave_companions(self.trainer, everyone=False)
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

    # ---- the result ------------------------------------------------------------------------------------------------

    def result(self, network: TrainedNetwork, X_train: Matrix, labels: np.ndarray, labeled: np.ndarray) -> RunResult:
        task, data, trainer, parameters = self.task, self.data, self.trainer, self.task.parameters
        log_likelihood = float(np.mean(network.log_likelihood(X_train, labels)))
        if network.n_classes == 1:  # the class layer learned without labels: the same for every class
            network = network.with_weights(network.W, np.repeat(network.R, data.n_classes, axis=0))
        test_error, confusion = None, np.zeros((0, 0), dtype=np.int64)
        posterior = None if task.waits_for_a_person else np.zeros((0, data.n_classes))
        if len(data.y_test) and posterior is not None:
            posterior = network.posterior(data.X_test)
            test_error, confusion = percent_error(posterior, data.y_test), _confusion(posterior, data)
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
            "weights_sha256": digest({"W": network.W, "R": network.R}),
            "self_labeled": float(trainer.history["self_labeled"][-1]),  # share of the points, in the last iteration
            "settings": task.settings(),
            "resolved": trainer.account() | ({"automatic": parameters.automatic} if parameters.automatic else {}),
            "versions": versions(),
        }
        details: Arrays = {name: np.asarray(values, dtype=float) for name, values in trainer.history.items()}
        details["test_error_curve"] = self._curve_array()
        details["confusion"] = confusion
        details["labeled"] = labeled.astype(np.int64)
        shown: Arrays = {}
        if task.keeps_weights:
            details[QUANTILES] = quantiles = log_likelihood_quantiles(network, X_train)
            shown = shown_points(network, quantiles, X_train, labels, data.X_test, data.y_test, posterior)
        if trainer.log_likelihood_at_start is not None:
            details["log_likelihood_at_start"] = np.asarray(trainer.log_likelihood_at_start)
        if isinstance(trainer, FieldLabelTrainer):
            record["field_labels"], answers = about_field_labels(parameters, trainer)
            details |= answers
        return RunResult(record, details, network if task.keeps_weights else None, shown)


def _confusion(posterior: np.ndarray, data: RunData) -> np.ndarray:
    """Counts (true class, predicted class)."""
    confusion = np.zeros((data.n_classes, data.n_classes), dtype=np.int64)
    np.add.at(confusion, (data.y_test, posterior.argmax(axis=1)), 1)
    return confusion


@cache
def versions() -> dict[str, str]:
    """What the numbers were made with."""
    found = {"python": platform.python_version(), "nesi": nesi.__version__}
    if (commit := source_commit()) is not None:
        found["commit"] = commit
    for package in ("numpy", "scipy", "pytensor", "numba"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def source_commit() -> str | None:
    """The commit that NeSi is run from, marked if files differ from it; None if it was installed otherwise."""
    root = Path(nesi.__file__).parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None


def _number(value: float) -> float | None:
    """None for what is not known, such as the likelihood while only the second layer learns."""
    return float(value) if np.isfinite(value) else None
