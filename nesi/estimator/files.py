"""A fitted `NeSiClassifier` on disk, without pickles, and one made of a run that an experiment has kept."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
from pydantic import Field

from data_tools.signed import InputPairs
from nesi.automatic import Choice
from nesi.errors import NesiError
from nesi.estimator.inputs import generator
from nesi.experiment.likeness import QUANTILES, log_likelihood_quantiles
from nesi.experiment.predictions import Predictor, kept_run
from nesi.label_model import label_model
from nesi.storage.arrays import Arrays, load_described_arrays
from nesi.storage.descriptions import Description, read_description
from nesi.storage.experiment_directory import ExperimentDirectory, name_of
from nesi.storage.records import write_bytes
from nesi.trained import TrainedNetwork
from nesi.training.settings import ESTIMATOR_NAMES

FORMAT = 1
_PARAMETER = "parameter_"  # the prefix of parameters that are arrays
_HISTORIES = ("log_likelihood_", "self_labeled_", "init_log_likelihood_")
Model = TypeVar("Model", bound=Any)


class OnDisk:
    """What `NeSiClassifier` can do with files."""

    def save(self, path: str | os.PathLike[str], X: Any = None) -> None:
        """Write the fitted network to an npz file, without pickles; `nesi predict` reads it, too.

        With the training points X, predictions from the file can tell which new points are unlike anything seen.
        """
        _save(self, Path(path), X)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX graph that has points as input and gives `label` and `probabilities` (needs 'nesi[onnx]')."""
        model: Any = self
        content = model._network().onnx(model.classes_, model.pairs_)
        write_bytes(Path(path), content)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` has written."""
        return _load(cls, Path(path))

    @classmethod
    def from_run(cls, directory: str | os.PathLike[str], run: str | None = None) -> Self:
        """The network that run_experiment.py has trained: the first run in the directory, or the one called `run`.

        Classes are called as in the data set. `read` turns new files into points for it.
        """
        return _from_run(cls, Path(directory), run)

    def read(self, path: str | os.PathLike[str]) -> Any:
        """Points from new files, treated as the files of the run were, for a network that comes `from_run`."""
        if not hasattr(self, "preprocessing_"):
            raise NesiError("Only a network that comes from_run knows how files become points.")
        from data_tools.new_points import load_new

        X, pairs = load_new(path, self.preprocessing_).X, self.preprocessing_.pairs
        return X if pairs is None else pairs.undone(X)


def _save(model: Any, path: Path, X: Any = None) -> None:
    """One npz file, written whole or not at all, which `TrainedNetwork.load` and `nesi predict` can read, too."""
    network: TrainedNetwork = model._network()
    arrays: Arrays = {name: getattr(model, name) for name in _HISTORIES}
    parameters: dict[str, Any] = {}
    for name, value in model.get_params(deep=False).items():
        if isinstance(value, np.ndarray):
            arrays[_PARAMETER + name] = value
        else:
            parameters[name] = _plain(name, value)
    if X is not None:
        arrays[QUANTILES] = log_likelihood_quantiles(network, model._validated(X))
    classes = model.classes_
    if classes.dtype.kind not in "OUbiuf":
        raise NesiError(f"classes of type {classes.dtype} can't be saved; name the classes by text or by numbers.")
    columns = getattr(model, "feature_names_in_", None)
    about = {
        "estimator": {
            "format": FORMAT,
            "parameters": parameters,
            "classes": classes.tolist(),
            "classes_type": "object" if classes.dtype == object else classes.dtype.str,
            "n_iter": int(model.n_iter_),
            "stopped": bool(model.stopped_),
            "converged": bool(model.converged_),
            "signed": None if model.pairs_ is None else _about(model.pairs_),
            "choices": {name: list(choice) for name, choice in getattr(model, "choices_", {}).items()},
            "seen": [float(number) for number in model.seen_],
            "feature_names": None if columns is None else [str(name) for name in columns],
        },
        "data": {
            "class_names": [str(name) for name in classes.tolist()],
            "preprocessing": {
                "n_inputs": int(model.n_features_in_),
                **({} if model.pairs_ is None else _about(model.pairs_)),
                **({} if columns is None else {"columns": [str(name) for name in columns]}),
            },
        },
    }
    network.save(path, about, arrays)


def _load(kind: type[Model], path: Path) -> Model:
    """What `save` has written."""
    arrays, about = load_described_arrays(path)
    if read_description(_Format, about, path).estimator.get("format") != FORMAT:
        raise NesiError(
            f"{path}: holds no NeSiClassifier of format {FORMAT}; what run_experiment.py has written is opened with "
            "NeSiClassifier.from_run(DIR)."
        )
    stored = read_description(_File, about, path).estimator
    network = TrainedNetwork.from_stored(path, arrays, about)
    features = network.W.shape[1] // 2 if stored.signed else network.W.shape[1]
    columns = stored.feature_names
    try:
        given = {name.removeprefix(_PARAMETER): arrays[name] for name in arrays if name.startswith(_PARAMETER)}
        model = kind(**stored.parameters, **given)
        classes = np.array(stored.classes, dtype=np.dtype(stored.classes_type))
        if len(np.unique(classes)) < len(classes) or (columns is not None and len(columns) != features):
            raise NesiError("its names of classes or features do not fit its weights.")
        histories = {name: arrays[name] for name in _HISTORIES}
        model = _fitted(model, network, classes, stored.n_iter, stored.seen, histories)
        model.choices_ = {name: Choice(*choice) for name, choice in stored.choices.items()}
        model.pairs_ = stored.signed.pairs(features) if isinstance(stored.signed, _Pairs) else None
        if stored.signed is True:  # earlier versions knew parts alone
            model.pairs_ = InputPairs()
    except (KeyError, TypeError, ValueError, OverflowError, NesiError) as error:
        raise NesiError(f"{path}: damaged or not a NeSiClassifier ({error}).") from None
    model.stopped_, model.converged_ = stored.stopped, stored.converged
    model.signed_, model.n_features_in_ = model.pairs_ is not None, features
    if columns is not None:
        model.feature_names_in_ = np.array(columns, dtype=object)
    return model


class _Format(Description):
    estimator: dict[str, Any] = Field(default_factory=dict)


class _Pairs(Description):
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def pairs(self, features: int) -> InputPairs:
        if any(len(end) != features for end in (self.low, self.high) if end is not None):
            raise NesiError("its ranges of features do not fit its weights.")
        return InputPairs(self.low, self.high)


class _StoredEstimator(Description):
    """What `save` says about the estimator."""

    parameters: dict[str, Any]
    classes: list[bool | int | float | str]
    classes_type: str = Field(pattern=r"^(object|[<>|=][Ubiuf]\d{1,5})$")
    n_iter: int = Field(ge=0)
    stopped: bool
    converged: bool
    signed: _Pairs | bool | None
    choices: dict[str, list[Any]] = Field(default_factory=dict)
    seen: tuple[float, float]
    feature_names: list[str] | None


class _File(Description):
    estimator: _StoredEstimator


def _from_run(kind: type[Model], path: Path, run: str | None) -> Model:
    """The network of a finished run, as if it had been fitted here."""
    directory = ExperimentDirectory(path)
    name = kept_run(directory, run)
    predictor = Predictor.load(path, name)
    record = next(record for record in directory.records() if name_of(record) == name)
    known = set(kind().get_params())
    settings = {ESTIMATOR_NAMES[key]: value for key, value in record["settings"].items() if key in ESTIMATOR_NAMES}
    settings |= {key: record["settings"].get(key) for key in ("W_init", "R_init")}
    settings = {key: value for key, value in settings.items() if key in known}
    model = kind(**{**settings, "network": record["network"], "random_state": record["seed"]})
    details = directory.details(name)
    histories = {
        "log_likelihood_": details["log_likelihood"],
        "self_labeled_": details["self_labeled"],
        "init_log_likelihood_": np.array([]),
    }
    classes = _numbers_if_all_are(predictor.classes)
    seen = (record["n_train"], record["labels"])
    model = _fitted(model, predictor.network, classes, record["iterations"], seen, histories)
    model.stopped_, model.converged_ = record["stopped_at"] is not None, record.get("converged_at") is not None
    model.preprocessing_ = how = predictor.preprocessing
    model.signed_, model.pairs_, model.n_features_in_ = how.signed, how.pairs, how.n_inputs
    return model


def _fitted(
    model: Model, network: TrainedNetwork, classes: np.ndarray, iterations: int, seen: Any, histories: Arrays
) -> Model:
    if len(classes) != network.n_classes:
        raise NesiError(f"there are {len(classes)} names for {network.n_classes} classes.")
    model._trained = network
    model.W_, model.R_, model.classes_ = network.W, network.R, classes
    model.class_prior_ = label_model(network.n_classes, network.class_prior).prior
    model.n_subclasses_, model.normalization_ = len(network.W) // network.committee, network.A
    model.n_features_in_, model.signed_, model.pairs_ = network.W.shape[1], False, None
    model.n_iter_ = int(iterations)
    model.seen_ = (float(seen[0]), float(seen[1]))
    model._random = generator(model.random_state)
    for name, values in histories.items():
        setattr(model, name, values)
    return model


def _about(pairs: InputPairs) -> dict[str, Any]:
    """As `data_tools.Preprocessing` calls it."""
    ranges = {} if pairs.low is None or pairs.high is None else {"low": list(pairs.low), "high": list(pairs.high)}
    return {"signed": True, **ranges}


def _plain(name: str, value: Any) -> Any:
    """As JSON has it; a generator's state is not kept."""
    if isinstance(value, np.generic):
        return value.item()
    if name == "random_state" and not isinstance(value, int):
        return None
    return value


def _numbers_if_all_are(names: list[str]) -> np.ndarray:
    """Classes called 0, 1, 2, ... are numbers for whoever works with arrays."""
    if all(name.isascii() and name.isdigit() and str(int(name)) == name for name in names):
        return np.array([int(name) for name in names])
    return np.array(names, dtype=object)
