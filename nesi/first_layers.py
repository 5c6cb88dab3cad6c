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

from nesi.checkpoints import load_arrays, save_arrays
from nesi.errors import NesiError

PREFIX = "first-layer-"
_SECONDS_BETWEEN_LOOKS = 0.5
# What a first layer depends on. `iterations` is only an upper limit, and the learning rate of the second layer matters
# as far as it limits the size of mini-batches.
_IDENTITY = (
    *("dataset", "data", "seed", "threads", "run", "C", "A", "epsilon_W", "minibatch_rule", "inference", "truncated"),
    *("backend", "dtype", "shuffle", "stopping", "tolerance", "W_init", "R_init", "train_size", "share_first_layer"),
    *("stopping_width", "committee"),
)


class FirstLayerFile:
    """Where the first layer of a run is, or will be when whoever needs it first has trained it."""

    def __init__(self, identity: dict[str, Any], batch_size: int, checkpoint: str) -> None:
        self._about = {key: identity.get(key) for key in _IDENTITY} | {"batch_size": batch_size}
        if identity["share_first_layer"]:
            self._about["run"] = None
        name = hashlib.sha256(json.dumps(self._about, sort_keys=True).encode()).hexdigest()[:16]
        self._path = Path(checkpoint).with_name(f"{PREFIX}{name}.npz")

    @contextlib.contextmanager
    def reserved(self, should_stop: Callable[[], bool]) -> Iterator[bool]:
        """Keep others from training the same layer meanwhile; False if we were asked to stop while waiting for them."""
        lock = FileLock(self._path.with_suffix(".lock"))
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

    def load(self, trainer: Any) -> float | None:
        """Put the trainer behind its first phase; the seconds which that took, or None if there is nothing to load."""
        try:
            state = load_arrays(self._path, self._about)
            seconds = float(state.pop("run_seconds"))
            iterations, allowed = int(state["iteration"]), trainer.settings.iterations
            ended_by_itself = (state["ends"] >= 0).any()
            if iterations > allowed or (iterations < allowed and not ended_by_itself):
                return None  # another limit of iterations than ours made a difference
            trainer.restore(state)
        except (NesiError, KeyError, ValueError):  # absent or damaged: it costs time to train it anew, nothing else
            return None
        return seconds

    def save(self, trainer: Any, seconds: float) -> None:
        save_arrays(self._path, {**trainer.state(), "run_seconds": np.asarray(seconds)}, self._about)


def has_common_first_layer(parameters: Any, n_classes: int) -> bool:
    """Whether no label has a say in the first layer: greedy training that does not start from labeled class means."""
    from_labels = parameters.W_init == "class_means" or (
        parameters.W_init in (None, "auto") and n_classes == parameters.C
    )
    # Weights from files belong to their run, and the authors' way of drawing points depends on the labels.
    from_the_authors = parameters.legacy is not None or hasattr(parameters.W_init, "h5")
    return bool(parameters.greedy) and not from_labels and not from_the_authors


def remove_first_layers(directory: Path) -> None:
    """When all runs are done nobody needs them any more."""
    for path in directory.glob(f"{PREFIX}*"):
        path.unlink(missing_ok=True)
