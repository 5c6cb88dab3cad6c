"""First layers that several runs have in common.

The first layer of a greedily trained network never sees a label: one trained W serves every number of labels and
every network of a run, so that a whole column of the table costs one training of W per run. It depends on the seed
and the run alone, never on who trained it, so that a cell gives the same record with and without the others.
"""

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from nesi.config.declaration import meanings
from nesi.config.parameters import ExperimentParameters
from nesi.config.values import WeightFile
from nesi.errors import NesiError
from nesi.networks import get_network
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.storage.experiment_directory import FIRST_LAYER_PREFIX
from nesi.training.trainer import Trainer

_SECONDS_BETWEEN_LOOKS = 0.5
# What identifies the run; the other settings that the layer depends on are declared in `nesi.config`.
OF_THE_RUN = ("dataset", "data", "seed", "threads", "run")


def first_layer_settings() -> list[str]:
    """The settings that a first layer may depend on."""
    declared = meanings(ExperimentParameters)
    recorded = [key for key, meaning in declared.items() if meaning.recorded != "elsewhere" or key == "truncated"]
    return [key for key in recorded if declared[key].shapes_first_layer]


class FirstLayerFile:
    """Where the first layer of a run is, or will be when whoever needs it first has trained it."""

    def __init__(self, identity: dict[str, Any], batch_size: int, checkpoint: str) -> None:
        keys = (*OF_THE_RUN, *first_layer_settings())
        self._about = {key: identity.get(key) for key in keys} | {"batch_size": batch_size}
        if identity["share_first_layer"]:
            self._about["run"] = None
        name = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode()).hexdigest()[:16]
        self._path = Path(checkpoint).with_name(f"{FIRST_LAYER_PREFIX}{name}.npz")

    @property
    def lock_file(self) -> Path:
        return self._path.with_suffix(".lock")

    def load(self, trainer: Trainer) -> float | None:
        """Move the trainer past its first phase; returns the seconds it took, or None if there is nothing to load."""
        try:
            state = load_arrays(self._path, self._about)
            seconds = float(state.pop("run_seconds"))
            iterations, allowed = int(state["iteration"]), trainer.settings.iterations
            ended_by_itself = (state["ends"] >= 0).any()
            if iterations > allowed or (iterations < allowed and not ended_by_itself):
                return None  # another limit of iterations than ours made a difference
            trainer.restore(state)
        except (NesiError, KeyError, ValueError):  # absent or damaged: it costs time to train it again, nothing else
            return None
        return seconds

    def save(self, trainer: Trainer, seconds: float) -> None:
        save_arrays(self._path, {**trainer.state(), "run_seconds": np.asarray(seconds)}, self._about)


@contextlib.contextmanager
def reserved(lock_file: Path, should_stop: Callable[[], bool]) -> Iterator[bool]:
    """Keep others from training the same layer meanwhile; False if we were asked to stop while waiting for them."""
    lock = FileLock(lock_file)
    while True:
        try:
            lock.acquire(blocking=False)
            break
        except Timeout:
            if should_stop():
                yield False
                return
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    try:
        yield True
    finally:
        lock.release()


def has_common_first_layer(parameters: ExperimentParameters, n_classes: int) -> bool:
    """Whether no label has a say in the first layer: greedy training that does not start from labeled class means."""
    return parameters.greedy and parameters.distribute == "runs" and not _starts_from_labels(parameters, n_classes)


def learns_side_by_side(parameters: ExperimentParameters, network: str, n_classes: int) -> bool:
    """Whether the class layer can be one of several on top of the same first layer, all learning at once."""
    return parameters.backend == "numba" and could_learn_side_by_side(parameters, network, n_classes)


def could_learn_side_by_side(parameters: ExperimentParameters, network: str, n_classes: int) -> bool:
    """Whether the first layer is the same for other cells of the run, with both layers learning at once.

    So it is for feedforward networks in paper mode. (Elsewhere every network has its own random numbers, and keeps
    them.)
    """
    p = parameters
    alone = p.mode != "paper" or get_network(network).recurrent or p.field_labels is not None or p.train_size
    ends_by_itself = p.greedy or p.stopping or p.tolerance is not None
    elsewhere = p.inference != "exact" or p.committee > 1 or p.distribute == "data"
    other_classes = p.label_noise is not None or p.R_init not in (None, "uniform")
    return not (alone or ends_by_itself or elsewhere or other_classes or _starts_from_labels(p, n_classes))


def _starts_from_labels(parameters: ExperimentParameters, n_classes: int) -> bool:
    class_means = parameters.W_init == "class_means" or (
        parameters.W_init in (None, "auto") and n_classes == parameters.C
    )
    if parameters.R_init == "points":  # R says which labels its units started from, and is handed on with W
        return True
    # Weights from files belong to their run, and the authors' way of drawing points depends on the labels.
    return class_means or parameters.legacy is not None or isinstance(parameters.W_init, WeightFile)
