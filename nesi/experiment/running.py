"""An experiment: which runs are still to do, who executes them, and what is written when one of them is done."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from pathlib import Path

from data_tools.dataset import Dataset
from nesi.config.parameters import ExperimentParameters, first_difference
from nesi.errors import NesiError
from nesi.experiment.cells import (
    all_labels,
    all_tasks,
    describe_dataset,
    load_dataset,
    run_data,
    sensible_threads,
    warnings_about_content,
    with_companions,
)
from nesi.experiment.choices import in_words, still_open, with_choices
from nesi.experiment.cluster import execute_on_cluster
from nesi.experiment.likeness import QUANTILES
from nesi.experiment.local import StopRequest, execute_here, execute_on_workers
from nesi.experiment.predictions import about_data, write_predictions
from nesi.experiment.progress import ProgressDisplay
from nesi.experiment.shared_runs import execute_shared, number_of_workers, teams_of
from nesi.experiment.shown_points import content_of
from nesi.experiment.tasks import Progress, RunResult, RunTask
from nesi.storage.arrays import save_arrays
from nesi.storage.experiment_directory import SETTLED_FILES, DatasetDescription, ExperimentDirectory, name_of
from nesi.storage.records import (
    Record,
    about_unprotected,
    append_record,
    remove_leftovers,
    repair_records,
    write_text,
)
from nesi.storage.tentative import tentative


@dataclass
class Outcome:
    """How it ended: `signal` is set when it was stopped, `failures` names runs without a result."""

    directory: Path
    records: list[Record]
    missing: int
    signal: int | None = None
    failures: list[str] = field(default_factory=list)
    predictions: Path | None = None  # for the training points that nobody has labeled


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
    place = ExperimentDirectory(directory)
    with tentative(directory, SETTLED_FILES, place.has_begun):
        records = repair_records(directory)
        remove_leftovers(directory)
        dataset = None
        if still_open(parameters):  # what is left to the program depends on the data
            dataset = load_dataset(parameters, data_dir)
            parameters = with_choices(parameters, dataset)
        parameters, stored = _settle_parameters(parameters, place, records, resume)
        dataset = dataset or load_dataset(parameters, data_dir)
        data = run_data(parameters, dataset)
        if parameters.threads is None:
            one_at_a_time = workers is None and scheduler is None
            parameters = parameters.changed(threads=sensible_threads(parameters, data, one_at_a_time))
        if parameters.distribute == "data" and parameters.parts is None:
            parameters = parameters.changed(parts=number_of_workers(workers, scheduler))
        tasks = all_tasks(parameters, data, place)
        kept = parameters if stored is None else parameters.widened(stored, all_labels(parameters, data))
        _prepare_directory(kept, place, describe_dataset(dataset, data))
        done = {name_of(record) for record in records}
        place.remove_checkpoints(done)  # of a run that ended just before the program was killed
        pending = with_companions([task for task in tasks if task.name not in done], data.n_classes)
        stop = StopRequest()
        writer = ResultWriter(place, records, len(tasks), pending, quiet, dataset, parameters.dataset)
        if (unprotected := about_unprotected([directory])) is not None:
            writer.warn(unprotected)
        for sentence in warnings_about_content(data) if pending else []:
            writer.warn(sentence)
        for sentence in in_words(parameters) if pending else []:
            writer.display.say(f"chosen: {sentence}")
        if pending and (held_out := _about_the_test_set(dataset)) is not None:
            writer.display.say(held_out)
        try:
            with stop.listening():
                if parameters.distribute == "data" and pending:
                    with teams_of(workers, scheduler, parameters.threads) as teams:
                        execute_shared(pending, data, writer, stop, teams)
                elif scheduler is not None and pending:
                    token = uuid.uuid4().hex
                    write_text(place.cluster_token_file, token)
                    execute_on_cluster(pending, data, writer, stop, scheduler, token)
                elif workers is not None and pending:
                    execute_on_workers(pending, data, writer, stop, workers, parameters.threads or 1)
                else:
                    execute_here(pending, data, writer, stop)
        finally:
            writer.display.close()
        done = {name_of(record) for record in writer.records}
        missing = sum(task.name not in done for task in tasks)
        if done.issuperset(task.name for task in all_tasks(kept, data, place)):
            place.remove_first_layers()
        outcome = Outcome(directory, writer.records, missing, stop.signal if missing else None, writer.failures)
        predicted = not pending and (place.predictions_file.exists() or not place.has_weights(name_of(records[0])))
        keeps_weights = parameters.keep_weights != "none" and not tasks[0].waits_for_a_person
        if not missing and not predicted and keeps_weights:
            outcome.predictions = write_predictions(place, dataset)
        return outcome


class ResultWriter:
    """Takes what runs report. Order matters: details and weights first, then the record, then the checkpoint goes.

    So a record always has its files, and a crash in between repeats the end of one run at worst.
    """

    def __init__(
        self,
        directory: ExperimentDirectory,
        records: list[Record],
        total: int,
        pending: list[RunTask],
        quiet: bool,
        dataset: Dataset,
        source: str,
    ) -> None:
        self._directory = directory
        self._dataset, self._source = dataset, source
        self._about_data = about_data(dataset)  # stored with the weights, so that they can be applied to new files
        self.records = list(records)
        self.failures: list[str] = []
        iterations = {task.name: task.total_iterations for task in pending}
        done = total - len(pending)
        self.display = ProgressDisplay(total, done, iterations, quiet, all(task.steady for task in pending))
        if done and pending:
            self.display.say(f"{done} of {total} runs are already done; {len(pending)} to do.")

    def progress(self, progress: Progress) -> None:
        self.display.iteration(progress)

    def finished(self, result: RunResult) -> None:
        directory, record = self._directory, result.record
        name = name_of(record)
        about = {key: record[key] for key in ("dataset", "network", "labels", "run", "seed")}
        save_arrays(directory.details_file(name), result.details, about)
        if result.network is not None:
            quantiles = {key: result.details[key] for key in (QUANTILES,) if key in result.details}
            result.network.save(directory.weights_file(name), {**about, "data": self._about_data}, quantiles)
        if result.shown:
            content, names = content_of(self._dataset, self._source, result.shown)
            save_arrays(directory.shown_file(name), {**result.shown, **content}, {**about, **names})
        append_record(directory.path, record)
        self.records.append(record)
        directory.checkpoint_file(name).unlink(missing_ok=True)
        self.display.run_finished(name, record)

    def failed(self, name: str, sentence: str) -> None:
        self.failures.append(f"{name}: {sentence}")
        self.warn(f"{name} has no result: {sentence}")

    def warn(self, sentence: str) -> None:
        self.display.warn(sentence)


def _about_the_test_set(dataset: Dataset) -> str | None:
    """What became of the labels in own data that has no test set of its own."""
    left = int((dataset.y_train >= 0).sum())
    if dataset.held_out is None or not left:
        return None
    if not dataset.held_out:
        return f"all {left} labels are there to train on: nothing is held out, so there is no test error."
    return (
        f"{dataset.held_out} of {left + dataset.held_out} labels are held out for testing; test_fraction under data: "
        "sets their share, and 0 trains on all of them."
    )


def _settle_parameters(
    given: ExperimentParameters, directory: ExperimentDirectory, records: list[Record], resume: bool
) -> tuple[ExperimentParameters, ExperimentParameters | None]:
    """The parameters as they will be used, after making sure that they fit those that the directory holds.

    A directory may be continued with more or other cells and runs: no record depends on what else is run.
    """
    stored = directory.parameters() if directory.parameters_file.exists() else None
    if (records or stored) and not resume:
        runs = f"{len(records)} finished run{'' if len(records) == 1 else 's'}"
        raise NesiError(
            f"{directory} already holds an experiment with {runs}; "
            "add --resume to continue it, or choose another --out."
        )
    if records and stored is None:
        raise NesiError(f"{directory} holds records but no params.yaml to compare with; choose another --out.")
    if given.threads is None and stored is not None:
        given = given.changed(threads=stored.threads)
    if given.distribute == "data" and given.parts is None and stored is not None:
        given = given.changed(parts=stored.parts)
    if stored is not None and (difference := first_difference(stored, given)):
        raise NesiError(
            f"{directory} was started with other parameters: {difference}; "
            "repeat the options of the first call, or choose another --out."
        )
    return given, stored


def _prepare_directory(
    parameters: ExperimentParameters, directory: ExperimentDirectory, description: DatasetDescription
) -> None:
    directory.create()
    if not directory.dataset_file.exists():
        directory.write_dataset(description)
    elif directory.dataset().fingerprint != description.fingerprint:
        raise NesiError(f"the data of {parameters.dataset} has changed since {directory} was started.")
    write_text(directory.parameters_file, parameters.to_yaml())
