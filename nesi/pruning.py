"""Overfitting control (Section 4.3.4): fields that hardly ever are active, and what happens without them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nesi.checkpoints import load_arrays, save_arrays
from nesi.config import load_parameters
from nesi.errors import NesiError
from nesi.field_labels import field_usage
from nesi.records import make_directory, read_records

# p(c|R) N, the number of training points a unit stands for: below 0.5 it is forgotten, below 1.5 it knows one point.
FORGOTTEN, SINGLE_POINT = 0.5, 1.5


class Pruned(NamedTuple):
    """One network before and after; errors in percent."""

    run: str
    units: int
    forgotten: int  # p(c|R) N < 0.5
    single: int  # 0.5 <= p(c|R) N < 1.5
    kept: int
    error_before: float
    error_after: float


def unit_usage(R: np.ndarray, n_train: int) -> np.ndarray:
    """p(c|R) N: the number of training points that each unit stands for."""
    return field_usage(R) * n_train


def prune(W: np.ndarray, R: np.ndarray, n_train: int, below: float = SINGLE_POINT) -> tuple[np.ndarray, np.ndarray]:
    """W and R without the units for which p(c|R) N < `below`; what is left of p(c|k) = R_kc sums to one again."""
    kept = unit_usage(R, n_train) >= below
    left = R[:, kept].sum(axis=1)
    if not (left > 0).all():
        raise NesiError(
            f"Pruning below {below:g} would leave class {int(np.argmin(left))} without a unit: use a smaller limit."
        )
    return W[kept], (R[:, kept] / left[:, None]).astype(R.dtype)


def prune_runs(directory: Path, below: float = SINGLE_POINT, data_dir: Path | None = None) -> Iterator[Pruned]:
    """Prune every network whose weights `directory` holds, into its folder `pruned`, and test it before and after."""
    from nesi.experiment import load_dataset, run_data, run_name

    records = [record for record in read_records(directory) if _weights(directory, run_name(record)).exists()]
    if not records:
        raise NesiError(f"{directory} holds no weights to prune; run the experiment with keep_weights: all.")
    parameters = load_parameters(directory / "params.yaml")
    data = run_data(parameters, load_dataset(parameters, data_dir))
    make_directory(directory / "pruned")
    for record in records:
        name = run_name(record)
        cell = parameters.for_cell(record["network"], record["labels"], record["n_train"])
        if cell.committee > 1:
            raise NesiError(
                f"{name} is a committee of {cell.committee}, whose members must stay equally large: no pruning."
            )
        weights = load_arrays(_weights(directory, name))
        W, R = prune(weights["W"], weights["R"], record["n_train"], below)
        about = {key: record[key] for key in ("dataset", "network", "labels", "run", "seed")} | {"pruned_below": below}
        save_arrays(directory / "pruned" / f"{name}.npz", {"W": W, "R": R}, about)
        before, after = (
            _test_error(cell, record["network"], *pair, data) for pair in ((weights["W"], weights["R"]), (W, R))
        )
        usage = unit_usage(weights["R"], record["n_train"])
        forgotten, single = int((usage < FORGOTTEN).sum()), int(((usage >= FORGOTTEN) & (usage < SINGLE_POINT)).sum())
        yield Pruned(name, len(usage), forgotten, single, len(W), before, after)


def _weights(directory: Path, name: str) -> Path:
    return directory / "weights" / f"{name}.npz"


def _test_error(parameters: Any, network: str, W: np.ndarray, R: np.ndarray, data: Any) -> float:
    from nesi.engines.exact import ExactEngine
    from nesi.engines.kinds import Kind
    from nesi.inference import infer
    from nesi.label_model import label_model
    from nesi.networks import get_network
    from nesi.observations import Observations
    from nesi.run_task import training_settings

    settings = training_settings(parameters.model_copy(update={"C": len(W)}), network)
    points = Observations(data.X_test, settings.A)
    rule, dtype, backend = settings.minibatch_rule, settings.dtype, settings.backend
    prior = label_model(len(R), settings.class_prior)
    kind = Kind(get_network(network), rule, dtype, backend, points.sparse, label_model=prior)
    t, _ = infer(ExactEngine(kind, W, R, settings.A, settings.threshold), points, settings)
    return 100.0 * float(np.mean(t.argmax(axis=1) != data.y_test))
