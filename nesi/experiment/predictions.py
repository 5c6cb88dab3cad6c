"""Apply what was trained: to new files, or to the points of a run that nobody has labeled."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from data_tools import Preprocessing, preprocessing_of
from data_tools.dataset import Dataset, Matrix
from data_tools.rows_on_disk import chosen_rows
from nesi.errors import NesiError
from nesi.experiment.likeness import QUANTILES, are_unlike, share_less_likely
from nesi.label_model import label_model
from nesi.observations import has_content
from nesi.storage.arrays import load_described_arrays
from nesi.storage.experiment_directory import ExperimentDirectory, name_of
from nesi.storage.records import write_text
from nesi.trained import TrainedNetwork


def about_data(dataset: Dataset) -> dict[str, Any]:
    """What is stored with the weights: the names of the classes, and how files become inputs."""
    return {
        "class_names": [str(name) for name in dataset.class_names],
        "preprocessing": preprocessing_of(dataset).as_json(),
    }


@dataclass(frozen=True)
class Predictions:
    """One row per point; likelihoods of points without content, which have none, are NaN."""

    names: Sequence[str]
    classes: Sequence[str]
    posterior: np.ndarray
    log_likelihood: np.ndarray
    quantiles: np.ndarray | None  # of the likelihoods of the training points; None if they were not stored

    @property
    def unlike(self) -> np.ndarray:
        """Points that are not like anything that was trained on."""
        if self.quantiles is None:
            return np.zeros(len(self.names), dtype=bool)
        return are_unlike(self.quantiles, self.log_likelihood)

    @property
    def without_content(self) -> np.ndarray:
        return np.asarray(np.isnan(self.log_likelihood))

    def to_csv(self, probabilities: bool = False) -> str:
        """`probabilities` adds a column for every class."""
        header = ["point", "class", "probability", "log_likelihood", "less_likely", "unlike_training"]
        header += [f"p({name})" for name in self.classes] if probabilities else []
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(header)
        best, unlike = self.posterior.argmax(axis=1), self.unlike
        shares = None if self.quantiles is None else share_less_likely(self.quantiles, self.log_likelihood)
        for row, name in enumerate(self.names):
            line = [name, self.classes[best[row]], f"{self.posterior[row, best[row]]:.4f}"]
            if self.without_content[row]:
                line += ["", "", "no content"]
            else:
                line += [f"{self.log_likelihood[row]:.2f}"]
                line += ["", ""] if shares is None else [f"{shares[row]:.3f}", "yes" if unlike[row] else "no"]
            writer.writerow(line + ([f"{p:.4f}" for p in self.posterior[row]] if probabilities else []))
        return text.getvalue()

    def summary(self) -> str:
        """What a person wants to know first."""
        counts = np.bincount(self.posterior.argmax(axis=1), minlength=len(self.classes))
        most = sorted(zip(counts, self.classes, strict=True), key=lambda pair: -pair[0])[:10]
        parts = ", ".join(f"{name} {count}" for count, name in most if count)
        more = f", {(counts > 0).sum() - 10} other classes" if (counts > 0).sum() > 10 else ""
        notes = ""
        if self.unlike.any():
            notes += f"; {int(self.unlike.sum())} not like anything seen in training"
        if self.without_content.any():
            notes += f"; {int(self.without_content.sum())} without content, which get the prior over classes"
        points = "1 point" if len(self.names) == 1 else f"{len(self.names)} points"
        return f"{points}: {parts}{more}{notes}."


@dataclass(frozen=True)
class Predictor:
    """A trained network, and all that is needed to apply it to files."""

    origin: str
    network: TrainedNetwork
    classes: list[str]
    preprocessing: Preprocessing
    quantiles: np.ndarray | None

    @classmethod
    def load(cls, path: Path, run: str | None = None) -> Predictor:
        """From the directory of an experiment (its first run, or the one called `run`) or from a file of weights."""
        if path.is_dir():
            directory = ExperimentDirectory(path)
            name = kept_run(directory, run)
            file, origin = directory.weights_file(name), f"{name} of {path}"
            if directory.labeled_weights_file(name).is_file():
                file, origin = directory.labeled_weights_file(name), f"{name} of {path} with labeled fields"
            elif _waits_for_a_person(directory, name):
                raise NesiError(f"nobody has labeled the fields of {name} yet; type: nesi label {path}")
        elif run is not None:
            raise NesiError(f"{path} is a single network, so --run {run} has no use; leave it out.")
        else:
            file, origin = path, str(path)
        arrays, about = load_described_arrays(file)
        network = TrainedNetwork.from_stored(file, arrays, about)
        stored = about.get("data")
        if stored is None and path.is_dir():
            stored = _known_of_older_runs(directory)
        classes, preprocessing = _read(file, stored, network)
        return cls(origin, network, classes, preprocessing, _quantiles(file, arrays))

    def predict_files(self, new_data: Path) -> Predictions:
        from data_tools.new_points import load_new

        X, names = load_new(new_data, self.preprocessing)
        return self.predict(X, names)

    def predict(self, X: Matrix, names: Sequence[str]) -> Predictions:
        filled = np.flatnonzero(has_content(X))
        prior = label_model(self.network.n_classes, self.network.class_prior).prior
        posterior = np.tile(prior, (X.shape[0], 1))
        log_likelihood = np.full(X.shape[0], np.nan)
        if len(filled):
            content = X if len(filled) == X.shape[0] else chosen_rows(X, filled)
            posterior[filled] = self.network.posterior(content)
            log_likelihood[filled] = self.network.log_likelihood(content)
        return Predictions(names, self.classes, posterior, log_likelihood, self.quantiles)


def kept_run(directory: ExperimentDirectory, run: str | None) -> str:
    """The run called `run`, or the first one in the records whose weights were kept."""
    kept = [name for record in directory.records() if directory.has_weights(name := name_of(record))]
    if not kept:
        raise NesiError(f"{directory} holds no weights of a finished run; run it with keep_weights: first or all.")
    if run is not None and run not in kept:
        raise NesiError(f"{directory} holds no weights of {run[:60]!r}; there are weights of {', '.join(kept[:20])}.")
    return run or kept[0]


def write_predictions(directory: ExperimentDirectory, dataset: Dataset, run: str | None = None) -> Path | None:
    """The file with predictions for the training points that nobody has labeled, if there are any."""
    unlabeled = np.flatnonzero(np.asarray(dataset.y_train) < 0)
    if not len(unlabeled):
        return None
    predictor = Predictor.load(directory.path, run)
    known = dataset.point_names
    names = [known[row] if known is not None else str(row) for row in unlabeled.tolist()]
    write_text(directory.predictions_file, predictor.predict(chosen_rows(dataset.X_train, unlabeled), names).to_csv())
    return directory.predictions_file


def _waits_for_a_person(directory: ExperimentDirectory, run: str) -> bool:
    record = next(record for record in directory.records() if name_of(record) == run)
    options = record["settings"].get("field_labels") or {}
    return bool(options.get("by") == "person")


def _quantiles(path: Path, arrays: Mapping[str, np.ndarray]) -> np.ndarray | None:
    """Of the likelihoods of training points; earlier versions did not store them."""
    quantiles = arrays.get(QUANTILES)
    if quantiles is None:
        return None
    if quantiles.ndim != 1 or quantiles.dtype.kind != "f" or len(quantiles) < 2 or not (np.diff(quantiles) >= 0).all():
        raise NesiError(f"{path}: damaged, its likelihoods of the training points are not rising numbers.")
    return quantiles.astype(np.float64)


def _known_of_older_runs(directory: ExperimentDirectory) -> dict[str, Any]:
    described = directory.dataset()
    shape = {} if described.image_shape is None else {"image_shape": described.image_shape}
    return {
        "class_names": described.class_names,
        "preprocessing": {"n_inputs": described.n_inputs, **shape},
    }


def _read(path: Path, stored: Mapping[str, Any] | None, network: TrainedNetwork) -> tuple[list[str], Preprocessing]:
    try:
        about = stored or {}
        classes = [str(name) for name in about.get("class_names", range(network.n_classes))]
        default = {"n_inputs": network.W.shape[1]}
        preprocessing = Preprocessing.from_json(about.get("preprocessing", default), str(path))
    except (AttributeError, TypeError, ValueError) as error:
        raise NesiError(f"{path}: damaged, its description of the data can't be read ({error}).") from None
    if len(classes) != network.n_classes or preprocessing.inputs_of_the_network != network.W.shape[1]:
        raise NesiError(f"{path}: damaged, its description of the data doesn't fit its weights.")
    return classes, preprocessing
