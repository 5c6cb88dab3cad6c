"""An experiment: which runs there are, which are still to do, and what is written when one of them is done."""

import hashlib
import json
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from nesi.checkpoints import save_arrays
from nesi.cluster import TOKEN, execute_on_cluster
from nesi.config import ExperimentParameters, first_difference, load_parameters
from nesi.errors import NesiError
from nesi.execution import StopRequest, execute_here, execute_on_workers
from nesi.first_layers import remove_first_layers
from nesi.progress import ProgressDisplay
from nesi.records import Record, append_record, locked, make_directory, repair_records, write_text
from nesi.run_task import Progress, RunData, RunResult, RunTask
from nesi.threads import threads_for


@dataclass
class Outcome:
    """How it ended: `signal` is set when it was stopped, `failures` names runs without a result."""

    directory: Path
    records: list[Record]
    missing: int
    signal: int | None = None
    failures: list[str] = field(default_factory=list)


def run_experiment(
    parameters: ExperimentParameters,
    directory: Path,
    *,
    resume: bool = False,
    workers: int | None = None,
    scheduler: str | None = None,
    data_dir: Path | None = None,
    quiet: bool = False,
) -> Outcome:
    """Execute every run that `directory` does not hold yet. Only one process at a time may do so."""
    make_directory(directory)
    with locked(directory):
        records = repair_records(directory)
        parameters, stored = _settle_parameters(parameters, directory, records, resume)
        dataset = load_dataset(parameters, data_dir)
        data = run_data(parameters, dataset)
        if parameters.threads is None:
            one_at_a_time = workers is None and scheduler is None
            parameters = parameters.model_copy(update={"threads": sensible_threads(parameters, data, one_at_a_time)})
        tasks = all_tasks(parameters, data, directory)
        kept = parameters if stored is None else parameters.widened(stored, parameters.train_size or len(data.y_train))
        _prepare_directory(kept, directory, dataset, data)
        done = {run_name(record) for record in records}
        pending = [task for task in tasks if task.name not in done]
        stop = StopRequest()
        desk = _Desk(directory, records, len(tasks), pending, quiet)
        try:
            with stop.listening():
                if scheduler is not None and pending:
                    token = uuid.uuid4().hex
                    write_text(directory / "checkpoints" / TOKEN, token)
                    execute_on_cluster(pending, data, desk, stop, scheduler, token)
                elif workers is not None and pending:
                    execute_on_workers(pending, data, desk, stop, workers, parameters.threads or 1)
                else:
                    execute_here(pending, data, desk, stop)
        finally:
            desk.display.close()
        done = {run_name(record) for record in desk.records}
        missing = sum(task.name not in done for task in tasks)
        if done.issuperset(task.name for task in all_tasks(kept, data, directory)):
            remove_first_layers(directory / "checkpoints")
        return Outcome(directory, desk.records, missing, stop.signal if missing else None, desk.failures)


class _Desk:
    """Where results arrive. Order matters: details and weights first, then the record, then the checkpoint goes.

    So a record always has its files, and a crash in between repeats the end of one run at worst.
    """

    def __init__(self, directory: Path, records: list[Record], total: int, pending: list[RunTask], quiet: bool) -> None:
        self.directory = directory
        self.records = list(records)
        self.failures: list[str] = []
        iterations = {task.name: task.total_iterations for task in pending}
        done = total - len(pending)
        self.display = ProgressDisplay(total, done, iterations, quiet, all(task.steady for task in pending))
        if done and pending:
            self.display.say(f"{done} of {total} runs are done already; {len(pending)} to do.")

    def progress(self, progress: Progress) -> None:
        self.display.iteration(progress)

    def finished(self, result: RunResult) -> None:
        record = result.record
        name = run_name(record)
        about = {key: record[key] for key in ("dataset", "network", "labels", "run", "seed")}
        save_arrays(self.directory / "details" / f"{name}.npz", result.details, about)
        if result.weights:
            save_arrays(self.directory / "weights" / f"{name}.npz", result.weights, about)
        append_record(self.directory, record)
        self.records.append(record)
        (self.directory / "checkpoints" / f"{name}.npz").unlink(missing_ok=True)
        self.display.run_finished(name, record)

    def failed(self, name: str, sentence: str) -> None:
        self.failures.append(f"{name}: {sentence}")
        self.warn(f"{name} has no result: {sentence}")

    def warn(self, sentence: str) -> None:
        self.display.warn(sentence)


def run_name(record: Record) -> str:
    return f"{record['network']}-L{record['labels']}-run{record['run']}"


def load_dataset(parameters: ExperimentParameters, data_dir: Path | None) -> Any:
    """The data set that the parameters name, from `data_dir`, $NESI_DATA or the user's cache."""
    import data_tools

    options: dict[str, Any] = dict(parameters.data)
    if parameters.legacy is not None and parameters.legacy.idf and data_tools.takes_option(parameters.dataset, "idf"):
        options.setdefault("idf", "legacy")
    return data_tools.load(parameters.dataset, data_dir=data_dir, **options)


def run_data(parameters: ExperimentParameters, dataset: Any) -> RunData:
    return RunData(
        name=parameters.dataset,
        X_train=dataset.X_train,
        y_train=np.asarray(dataset.y_train),
        X_test=dataset.X_test,
        y_test=np.asarray(dataset.y_test),
        n_classes=len(dataset.class_names),
    )


def all_tasks(parameters: ExperimentParameters, data: RunData, directory: Path | None) -> list[RunTask]:
    """Every run of the table; the first run of every cell comes first, so that a picture emerges early."""
    cells = _cells(parameters, data)
    return [
        RunTask(cell, network, labels, run, _checkpoint_path(directory, f"{network}-L{labels}-run{run}"))
        for run in range(1, parameters.runs + 1)
        for cell, network, labels in (cells if parameters.per_run is None else _cells(parameters.for_run(run), data))
    ]


def _cells(parameters: ExperimentParameters, data: RunData) -> list[tuple[ExperimentParameters, str, int]]:
    """Networks and numbers of labels, with the parameters of each."""
    available = int(np.count_nonzero(data.y_train >= 0))
    if parameters.train_size is not None:
        if parameters.train_size > len(data.y_train):
            raise NesiError(
                f"train_size is {parameters.train_size}, but {data.name} has {len(data.y_train)} training points."
            )
        available = min(available, parameters.train_size)
    if parameters.test_size is not None and parameters.test_size > len(data.y_test):
        raise NesiError(f"test_size is {parameters.test_size}, but {data.name} has {len(data.y_test)} test points.")
    n_train = parameters.train_size or len(data.y_train)
    cells: list[tuple[ExperimentParameters, str, int]] = []
    for entry in parameters.labels:
        labels = available if entry == "all" else entry
        if labels > available:
            raise NesiError(f"labels: {labels} are asked for, but {data.name} has {available} labeled training points.")
        if any(labels == other for _, _, other in cells):
            raise NesiError(f"labels: 'all' and {labels} are the same for {data.name}; leave one of them out.")
        cells += [(parameters.for_cell(network, labels, n_train), network, labels) for network in parameters.networks]
    for cell, network, labels in cells:
        _check_normalization(cell, data, f"{network} with {labels} labels")
    return cells


def sensible_threads(parameters: ExperimentParameters, data: RunData, one_at_a_time: bool) -> int:
    """All cores for one large run at a time; one thread per run if there are several at once, whatever their number.

    Small runs get one thread in any case: it is faster, and their records do not depend on the number of workers.
    """
    return threads_for(data.X_train, parameters.C * parameters.committee) if one_at_a_time else 1


def _checkpoint_path(directory: Path | None, name: str) -> str | None:
    return str(directory.absolute() / "checkpoints" / f"{name}.npz") if directory else None


def _check_normalization(cell: ExperimentParameters, data: RunData, where: str) -> None:
    inputs = data.X_train.shape[1]
    if inputs >= cell.A:
        raise NesiError(
            f"A is {cell.A:g} ({where}), but has to be larger than the {inputs} inputs of {data.name}, "
            f"since every input gets a background of 1; try A: {round(1.2 * inputs)}."
        )


def _settle_parameters(
    given: ExperimentParameters,
    directory: Path,
    records: list[Record],
    resume: bool,
) -> tuple[ExperimentParameters, ExperimentParameters | None]:
    """The parameters as they will be used, after making sure that they fit to those which the directory holds.

    A directory may be continued with more or other cells and runs: no record depends on what else is run.
    """
    path = directory / "params.yaml"
    stored = load_parameters(path) if path.exists() else None
    if (records or stored) and not resume:
        raise NesiError(
            f"{directory} already holds an experiment with {len(records)} finished runs; "
            "add --resume to continue it, or choose another --out."
        )
    if records and stored is None:
        raise NesiError(f"{directory} holds records but no params.yaml to compare with; choose another --out.")
    if given.threads is None and stored is not None:
        given = given.model_copy(update={"threads": stored.threads})
    if stored is not None and (difference := first_difference(stored, given)):
        raise NesiError(
            f"{directory} was started with other parameters: {difference}; "
            "repeat the options of the first call, or choose another --out."
        )
    return given, stored


def _prepare_directory(parameters: ExperimentParameters, directory: Path, dataset: Any, data: RunData) -> None:
    for name in ("checkpoints", "details", "weights"):
        make_directory(directory / name)
    description = describe_dataset(dataset, data)
    path = directory / "dataset.json"
    if path.exists():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))["fingerprint"]
        except (ValueError, KeyError, TypeError):
            raise NesiError(f"{path}: damaged; remove it if you are sure that the data is still the same.") from None
        if stored != description["fingerprint"]:
            raise NesiError(f"the data of {parameters.dataset} has changed since {directory} was started.")
    else:
        write_text(path, json.dumps(description) + "\n")
    write_text(directory / "params.yaml", parameters.to_yaml())


def describe_dataset(dataset: Any, data: RunData) -> dict[str, Any]:
    """What the figures need to know of the data, and a fingerprint to notice when it changes."""
    sha = hashlib.sha256()
    for array in (data.y_train, data.y_test):
        sha.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    for matrix in (data.X_train, data.X_test):
        values = matrix if isinstance(matrix, np.ndarray) else matrix.data
        sha.update(f"{matrix.shape}|{float(np.sum(values, dtype=np.float64))!r}".encode())
    vocabulary = getattr(dataset, "vocabulary", None)
    return {
        "name": data.name,
        "class_names": [str(name) for name in dataset.class_names],
        "image_shape": list(dataset.image_shape) if dataset.image_shape else None,
        "n_train": int(data.X_train.shape[0]),
        "n_test": int(data.X_test.shape[0]),
        "n_inputs": int(data.X_train.shape[1]),
        "fingerprint": sha.hexdigest(),
        "vocabulary": [str(word) for word in vocabulary] if vocabulary is not None else None,
    }
