"""Every parameter file on every backend: in paper mode as it is, in fast mode with full posteriors where need be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run_here, write_params
from small_networks import INSTALLED_BACKENDS, make_data, make_trainer

from nesi.config import load_parameters
from nesi.config.backends import with_what_the_backend_has
from nesi.config.shipped import shipped_files
from nesi.experiment.one_run import train_run
from nesi.experiment.tasks import RunData, RunTask
from nesi.storage.experiment_directory import ExperimentDirectory

OTHER_BACKENDS = [name for name in INSTALLED_BACKENDS if name != "numba"]


def small_data(texts: bool) -> RunData:
    X, labels = make_data(N=60, D=10, K=4, share_labeled=1.0)
    X = sp.csr_array(np.where(X > 3, X, 0) + np.eye(60, 10)) if texts else X
    return RunData("made", X, labels, X[:20], labels[:20], n_classes=4)


def small_cell(file: str, backend: str, mode: str) -> tuple[RunTask, RunData]:
    """The first cell of the file at a size that takes no time, with all that makes it what it is."""
    data = small_data(texts="newsgroups" in file)
    parameters = load_parameters(shipped_files()[file], {"mode": mode, "backend": backend})
    parameters, _ = with_what_the_backend_has(parameters)
    network = parameters.networks[-1]
    labels = 0 if parameters.field_labels is not None else 30
    cell = parameters.for_cell(network, parameters.labels[-1] if labels else 0, 60)
    small: dict[str, Any] = {"C": 4 if parameters.C == 20 else 8, "A": 40.0, "iterations": 2, "train_size": None}
    small |= {"epsilon_W": 0.5, "batch_size": min(cell.batch_size or 10, 10), "overrides": [], "paper": None}
    small |= {"epsilon_R": min(cell.epsilon_R, 0.5), "iterations_R": None, "threads": 1, "truncated": {"active": 3}}
    if parameters.field_labels is not None:
        small["field_labels"] = {"fields": 4}
    return RunTask(cell.changed(**small), network, labels, 1), data


@pytest.mark.parametrize("file", sorted(shipped_files()))
@pytest.mark.parametrize("mode", ["paper", "fast"])
def test_every_file_runs_on_every_backend(file: str, mode: str) -> None:
    errors = {}
    for backend in INSTALLED_BACKENDS:
        task, data = small_cell(file, backend, mode)
        result = train_run(task, data, lambda progress: None, lambda: False)
        record = result.record
        assert record["backend"] == backend
        fell_back = (
            mode == "fast" and backend != "numba" and load_parameters(shipped_files()[file]).inference != "exact"
        )
        assert record["settings"].get("full_posteriors_instead", False) == fell_back
        assert (record["settings"]["inference"] == "truncated") == (task.parameters.inference == "truncated")
        assert np.isfinite(record["log_likelihood"])
        errors[backend] = record["log_likelihood"]
    if mode == "paper":  # the same random numbers, so that only rounding differs
        for value in errors.values():
            assert value == pytest.approx(errors["numba"], rel=1e-4)


@pytest.mark.parametrize("backend", OTHER_BACKENDS)
def test_one_sentence_says_that_full_posteriors_are_computed(backend: str, tmp_path: Path) -> None:
    only_inference = {"networks": ["ff"], "inference": "truncated"}
    two_things = {"networks": ["r"], "inference": "truncated", "iterations": 1}
    path = write_params(
        tmp_path / "p.yaml", C=12, networks=["ff", "r"], runs=1, iterations=2, overrides=[only_inference, two_things]
    )
    options = ("--backend", backend, "--out", tmp_path / "out", "--quiet")
    code, _, errors = run_here(path, *options)
    assert code == 0, errors
    assert errors.count(f"on {backend} full posteriors are computed instead") == 1
    found = {record["network"]: record for record in ExperimentDirectory(tmp_path / "out").records()}
    assert all(record["settings"]["full_posteriors_instead"] is True for record in found.values())
    assert (found["ff"]["iterations"], found["r"]["iterations"]) == (2, 1)
    code, _, errors = run_here(path, *options, "--resume", "--runs", 2)
    assert code == 0, errors


def test_numba_computes_what_the_file_says() -> None:
    parameters = load_parameters(shipped_files()["mnist"])
    assert with_what_the_backend_has(parameters) == (parameters, None)


def test_units_that_start_from_labeled_points_need_no_truncation() -> None:
    X, labels = make_data()
    trainer = make_trainer(X, labels, network="r", inference="exact", R_init="points")
    assert trainer.starts == ("points", "points")
    trainer.run_iteration()


@pytest.mark.skipif("jax" not in INSTALLED_BACKENDS, reason="JAX is not installed")
@pytest.mark.parametrize("texts", [False, True])
def test_jax_compiles_nothing_after_the_first_iteration(texts: bool) -> None:
    import jax

    compiled: list[str] = []
    data = small_data(texts)
    trainer = make_trainer(data.X_train, data.y_train, K=4, network="r+", backend="jax", batch_size=7, iterations=9)
    trainer.run_iteration()  # 60 points: the last mini-batch has 4
    trainer.run_iteration()

    def listen(event: str, seconds: float, **about: Any) -> None:
        if "compile" in event:
            compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        jax.jit(lambda x: x + 1)(np.arange(3.0))
        assert compiled, "the listener hears nothing"
        compiled.clear()
        for _ in range(3):
            trainer.run_iteration()
        assert compiled == []
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
