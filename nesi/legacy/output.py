"""The output tree of the authors' program, made from the directory of a finished experiment.

<foldername>/<filename> - Results.txt        test error and log-likelihood of every run
<foldername>/<filename> - LogLikelihood.txt  log-likelihood during training, one run after the other
<foldername>/<filename> - Online Results.txt test error during training, if it was asked for
<foldername>/<filename> - Setting.txt        the settings
<foldername>/h5/Run<r>M<i>L<j>.h5            weights
<foldername>/h5/Run<r>Data.h5                indices of the points
"""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from nesi.config.legacy_options import LegacyOutput
from nesi.config.parameters import ExperimentParameters
from nesi.errors import NesiError
from nesi.experiment.point_choice import PointList
from nesi.legacy.h5_files import index_file_name, weight_file_name, write_point_list, write_weights
from nesi.legacy.ini import Section, format_ini
from nesi.legacy.to_ini import IniFiles, configurations_of, resolved_rates
from nesi.storage.arrays import Arrays, load_arrays
from nesi.storage.experiment_directory import ExperimentDirectory, name_of
from nesi.storage.records import Record, make_directory, storing, write_text

# Names of the swept settings: number of the MultiLayer, number of the layer, key.
COLUMNS = {
    "batch_size": "mini_batch_size",
    "train_size": "training_data_size",
    "labels": "training_label_size",
    "test_size": "test_size",
    "iterations": "1_Iterations",
    "A": "1_A",
    "C": "1.1_C",
    "epsilon_W": "1.1_epsilon",
    "iterations_R": "2_Iterations",
}


@dataclass(frozen=True)
class _Configuration:
    """One network of an experiment, with all that is known of its runs."""

    directory: ExperimentDirectory
    parameters: ExperimentParameters
    records: list[Record]
    n_train: int
    n_test: int
    n_classes: int

    def details(self, record: Record) -> Arrays:
        return _arrays(self.directory.details_file(name_of(record))) or {}

    def weights(self, record: Record) -> Arrays | None:
        return _arrays(self.directory.weights_file(name_of(record)))

    def of_run(self, record: Record) -> ExperimentParameters:
        parameters = self.parameters.for_run(record["run"])
        return parameters.for_cell(record["network"], record["labels"], parameters.train_size or self.n_train)

    def swept(self, record: Record) -> dict[str, float]:
        """The settings that change from run to run, learning rates as absolute numbers."""
        keys = list(self.parameters.per_run.lists()) if self.parameters.per_run else []
        cell = self.of_run(record)
        n_train = cell.train_size or self.n_train
        rates = resolved_rates(cell, record["network"], record["labels"], n_train, self.n_classes)
        columns: dict[str, float] = {}
        for key in keys:
            if key == "epsilon_R":
                columns["2.1_epsilon" if cell.greedy else "1.2_epsilon"] = rates[1]
            elif key == "epsilon_W":
                columns[COLUMNS[key]] = rates[0]
            else:
                columns[COLUMNS[key]] = record["labels"] if key == "labels" else getattr(cell, key)
        return columns


def _arrays(path: Path) -> Arrays | None:
    return load_arrays(path) if path.exists() else None


def write_output_tree(
    directory: Path, root: Path, warn: Callable[[str], None] = lambda sentence: None, day: datetime.date | None = None
) -> list[Path]:
    """Write one folder below `root` per configuration; a folder appears complete or not at all. Returns the folders."""
    place = ExperimentDirectory(directory)
    parameters = place.parameters()
    records = sorted(place.records(), key=lambda record: record["run"])
    if not records:
        raise NesiError(f"{directory}: holds no finished run to write an output tree of.")
    dataset = place.dataset()
    sizes = (dataset.n_train, dataset.n_test, len(dataset.class_names))
    configurations, lost = configurations_of(parameters, sizes[:2])
    for sentence in lost:
        warn(sentence)
    swept_labels = parameters.per_run is not None and parameters.per_run.labels is not None
    written = []
    for files in configurations:
        network, _, labels = files.name.partition("-NeSi-L")
        chosen = [
            record
            for record in records
            if record["network"] == network and (swept_labels or record["labels"] == int(labels))
        ]
        if chosen:
            finished = _Configuration(place, parameters, chosen, *sizes)
            written.append(_write_folder(finished, files, root, day or datetime.date.today(), warn))
    return written


def _write_folder(
    finished: _Configuration, files: IniFiles, root: Path, day: datetime.date, warn: Callable[[str], None]
) -> Path:
    output = LegacyOutput(**files.output)
    folder = root / safe_folder(files.main["foldername"])
    if output.DATEPREFIX_PATH:
        folder = folder.with_name(f"{day.isoformat()} - {folder.name}")
    prefix = files.main["filename"].replace("/", "-")
    if output.DATEPREFIX_FILE:
        prefix = f"{day.isoformat()} - {prefix}"
    make_directory(folder.parent)
    with storing(folder):
        part = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".", suffix=".part"))
    try:
        for name, text in _texts(finished, files, output, day).items():
            write_text(part / f"{prefix} - {name}.txt", text)
        _write_h5(finished, output, part / "h5", warn)
        return _put_in_place(part, folder)
    except BaseException:
        with contextlib.suppress(OSError):
            shutil.rmtree(part)
        raise


def safe_folder(name: str) -> Path:
    """The folder of a configuration, which must stay below the root of the output."""
    parts = [part for part in PurePosixPath(name).parts if part != "."]
    if not parts or name.startswith("/") or ".." in parts:
        raise NesiError(f"foldername is {name!r}, but must be a folder below the output folder.")
    return Path(*parts)


def _put_in_place(part: Path, folder: Path) -> Path:
    """Nothing is overwritten: if the folder is there already, the new one is called ` (0)`, ` (1)`, ..."""
    target, number = folder, -1
    with storing(folder):
        os.chmod(part, 0o755)
        while target.exists():
            number += 1
            target = folder.with_name(f"{folder.name} ({number})")
        part.rename(target)
    return target


def _texts(finished: _Configuration, files: IniFiles, output: LegacyOutput, day: datetime.date) -> dict[str, str]:
    texts = {}
    if output.RESULTS_OUTPUT:
        texts["Results"] = _results(finished, output, day)
    if output.LIKELIHOOD_ONLINE_OUTPUT:
        texts["LogLikelihood"] = _likelihoods(finished, output.LIKELIHOOD_EVERY_N_ITERATIONS)
    if output.RESULTS_ONLINE_OUTPUT:
        texts["Online Results"] = _online_results(finished, output)
    if output.SETTING_OUTPUT:
        texts["Setting"] = _settings(finished, files)
    return texts


def _results(finished: _Configuration, output: LegacyOutput, day: datetime.date) -> str:
    header = [*finished.swept(finished.records[0]), "Test-Error [%]"]
    header += ["Log-Likelihood"] if output.LIKELIHOOD_OUTPUT else []
    lines = [day.isoformat(), "\t".join(header)]
    for record in finished.records:
        error = float("nan") if record["test_error"] is None else record["test_error"]
        values = [*finished.swept(record).values(), error]
        values += [record["log_likelihood"]] if output.LIKELIHOOD_OUTPUT else []
        lines.append("\t".join(f"{value:f}" for value in values))
    return "\n".join(lines) + "\n"


def _likelihoods(finished: _Configuration, every: int) -> str:
    lines = ["%Iteration\tLogLikelihood"]
    for record in finished.records:
        for iteration, value in _trace(finished, record):
            if iteration % every == 0:
                lines.append(f"{_dotted(finished, record, iteration)}\t{value:f}")
    return "\n".join(lines) + "\n"


def _trace(finished: _Configuration, record: Record) -> list[tuple[int, float]]:
    """Iterations and log-likelihoods; that of the start only where it was computed (legacy.likelihood)."""
    details = finished.details(record)
    values = details.get("log_likelihood", np.zeros(0))
    start = [(0, float(details["log_likelihood_at_start"]))] if "log_likelihood_at_start" in details else []
    return [*start, *((number, float(value)) for number, value in enumerate(values, start=1))]


def _dotted(finished: _Configuration, record: Record, iteration: int) -> str:
    """With two MultiLayers, 500.20 is iteration 20 of the second after 500 of the first."""
    cell = finished.of_run(record)
    first = record["iterations"] - (cell.iterations_R or cell.iterations) if cell.greedy else record["iterations"]
    return str(iteration) if iteration <= first else f"{first}.{iteration - first}"


def _online_results(finished: _Configuration, output: LegacyOutput) -> str:
    header = ["Iteration", *finished.swept(finished.records[0]), "Test-Error [%]"]
    header += ["Log-Likelihood"] if output.LIKELIHOOD_OUTPUT else []
    lines = ["\t".join(header)]
    for record in finished.records:
        details = finished.details(record)
        trace = dict(_trace(finished, record))
        for iteration, error in details.get("test_error_curve", np.zeros((0, 2))):
            values = [*finished.swept(record).values(), error]
            values += [trace.get(int(iteration), float("nan"))] if output.LIKELIHOOD_OUTPUT else []
            lines.append("\t".join([_dotted(finished, record, int(iteration)), *(f"{value:f}" for value in values)]))
    return "\n".join(lines) + "\n"


def _settings(finished: _Configuration, files: IniFiles) -> str:
    record = finished.records[0]
    cell = finished.of_run(record)
    rates = resolved_rates(
        cell, record["network"], record["labels"], cell.train_size or finished.n_train, finished.n_classes
    )
    main = {**files.main, "total_mini_batch_size": cell.batch_size or files.main["mini_batch_size"]}
    sections = {"Config": main, "DataSet": files.dataset, "Output": files.output, "Model": _with_rates(files, rates)}
    return "\n".join(f"{'=' * 10} {title} {'=' * 10}\n{format_ini(section)}" for title, section in sections.items())


def _with_rates(files: IniFiles, rates: tuple[float, float]) -> Section:
    """The model file with the resolved learning rates behind a '|'."""
    left = list(rates)
    model: Section = {}
    for name, multilayer in files.model.items():
        model[name] = dict(multilayer)
        for layer, content in multilayer.items():
            if layer.startswith("ProcessingLayer"):
                model[name][layer] = {**content, "epsilon": (*content["epsilon"], "|", left.pop(0))}
    return model


def _write_h5(finished: _Configuration, output: LegacyOutput, folder: Path, warn: Callable[[str], None]) -> None:
    if output.SAVE_WEIGHTS or output.SAVE_DATA_INDEX:
        make_directory(folder)
    for record in finished.records:
        run = record["run"]
        weights = finished.weights(record) if output.SAVE_WEIGHTS else None
        if weights is not None:
            top = (2, 1) if finished.of_run(record).greedy else (1, 2)
            write_weights(folder / weight_file_name(run, 1, 1), weights["W"])
            write_weights(folder / weight_file_name(run, *top), weights["R"])
        elif output.SAVE_WEIGHTS:
            warn(f"the weights of run {run} were not kept (keep_weights: all keeps them)")
        if output.SAVE_DATA_INDEX:
            write_point_list(folder / index_file_name(run), _points(finished, record))


def _points(finished: _Configuration, record: Record) -> PointList:
    details = finished.details(record)
    labeled = details["labeled"]
    training = details.get("training_points", np.arange(finished.n_train))
    return PointList(labeled, np.setdiff1d(training, labeled), details.get("test_points", np.arange(finished.n_test)))
