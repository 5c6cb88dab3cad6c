"""One first layer carries the class layers of all feedforward cells of a run, each as if it were alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import SMALL
from small_networks import make_data, make_trainer
from small_runs import execute

from nesi.config.parameters import validated
from nesi.experiment.cells import all_tasks, load_dataset, run_data, with_companions
from nesi.experiment.first_layers import learns_side_by_side
from nesi.experiment.one_run import RunInterrupted
from nesi.experiment.running import run_experiment
from nesi.storage.experiment_directory import ExperimentDirectory
from nesi.training.settings import TrainingSettings
from nesi.training.side_by_side import SideBySideTrainer

HALF_A_TABLE: dict[str, Any] = {
    **SMALL,
    "mode": "paper",
    "minibatch_rule": "summed",
    "batch_size": 10,
    "epsilon_R": 0.5,
    "iterations": 6,
    "networks": ["ff", "ff+"],
    "labels": [10, 50, "all"],
    "runs": 1,
    "threads": 1,
    "keep_weights": "all",
    "overrides": [{"networks": ["ff+"], "labels": [10], "iterations": 9}],
}


def tasks_in(directory: Path, **changes: Any) -> tuple[list[Any], Any]:
    (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
    parameters = validated({**HALF_A_TABLE, **changes}, "HALF_A_TABLE")
    data = run_data(parameters, load_dataset(parameters, None))
    tasks = all_tasks(parameters, data, ExperimentDirectory(directory))
    return with_companions(tasks, data.n_classes), data


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "seconds": 0, "versions": None}  # somebody may commit meanwhile


def assert_same_result(one: Any, other: Any) -> None:
    assert comparable(one.record) == comparable(other.record)
    for name in ("log_likelihood", "self_labeled"):
        np.testing.assert_array_equal(one.details[name], other.details[name])


@pytest.mark.parametrize(("rule", "sparse"), [("summed", False), ("sequential", True)])
def test_both_layers_learn_as_they_do_in_one_graph(rule: str, sparse: bool) -> None:
    X, labels = make_data()
    X = sp.csr_array(X) if sparse else X
    given = {"minibatch_rule": rule, "batch_size": 5, "dtype": "float64", "epsilon_W": 0.5, "threshold": 0.1}
    for network in ("ff", "ff+"):
        alone = make_trainer(X, labels, network=network, **given)
        settings = TrainingSettings(network=network, C=6, A=X.shape[1] + 20.0, iterations=4, **given)
        apart = SideBySideTrainer(settings, X, labels, 3, np.random.default_rng(0))
        for one, other in zip(alone, apart, strict=True):
            assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-10)
            assert other.self_labeled == one.self_labeled
        np.testing.assert_allclose(apart.W, alone.W, rtol=1e-10)
        np.testing.assert_allclose(apart.R, alone.R, rtol=1e-8)


def test_the_likelihood_is_right_while_rows_of_W_differ_in_their_sums() -> None:
    """At the start of training on texts the sums of rows differ by hundreds, and exp(-sum) of most units is 0."""
    rng = np.random.default_rng(3)
    X, labels = sp.csr_array(rng.poisson(0.3, (60, 400)) + np.eye(60, 400)), np.arange(60) % 3
    W = rng.gamma(1.0, 1.0, (6, 400)) * np.array([[1], [2], [4], [1], [3], [6]]) + 0.5
    given = {"minibatch_rule": "summed", "batch_size": 5, "W_init": W, "epsilon_W": 0.5}
    alone = make_trainer(X, labels, **given)
    settings = {key: value for key, value in given.items() if key != "W_init"}
    settings = TrainingSettings(network="ff", C=6, A=420.0, iterations=4, **settings)
    apart = SideBySideTrainer(settings, X, labels, 3, np.random.default_rng(0), W_init=W)
    for one, other in zip(alone, apart, strict=True):
        assert np.isfinite(other.log_likelihood)
        assert other.log_likelihood == pytest.approx(one.log_likelihood, rel=1e-4)


def test_who_wants_a_curve_of_test_errors_trains_alone(tmp_path: Path) -> None:
    tasks, _ = tasks_in(tmp_path, test_error_every=1)
    assert all(task.companions == () for task in tasks)


def test_every_cell_has_the_same_record_alone_and_beside_the_others(tmp_path: Path) -> None:
    together, data = tasks_in(tmp_path / "together")
    assert all(len(task.companions) == 5 for task in together)
    results = {task.name: execute(task, data) for task in together}
    for network in ("ff", "ff+"):
        for labels in HALF_A_TABLE["labels"]:
            (task,), _ = tasks_in(tmp_path / "alone", networks=[network], labels=[labels])
            assert task.companions == ()
            assert_same_result(results[task.name], execute(task, data))
    assert results["ff+-L10-run1"].record["iterations"] == 9


def test_the_first_layer_is_trained_once(tmp_path: Path) -> None:
    tasks, data = tasks_in(tmp_path)
    execute(tasks[0], data)
    for task in tasks[1:]:
        checkpoint = Path(task.checkpoint)
        assert checkpoint.exists()
        left = 3 if task.name == "ff+-L10-run1" else 0
        if left == 0:  # the next iteration would be one too many
            result = execute(task, data, stop_after=1)
            assert result.record["iterations"] == 6


def test_after_an_interruption_all_of_them_go_on_bit_for_bit(tmp_path: Path) -> None:
    whole, data = tasks_in(tmp_path / "whole")
    expected = {task.name: execute(task, data) for task in whole}
    tasks, _ = tasks_in(tmp_path / "interrupted")
    with pytest.raises(RunInterrupted):
        execute(tasks[0], data, stop_after=2)
    assert [path.name for path in (tmp_path / "interrupted" / "checkpoints").glob("*.npz")] == ["ff-L10-run1.npz"]
    for task in tasks:
        assert_same_result(execute(task, data), expected[task.name])


@pytest.mark.parametrize("workers", [None, 2])
def test_an_experiment_has_the_same_records_with_any_number_of_workers(workers: int | None, tmp_path: Path) -> None:
    parameters = validated({**HALF_A_TABLE, "labels": [10, 50]}, "HALF_A_TABLE")
    outcome = run_experiment(parameters, tmp_path / "out", workers=workers, quiet=True)
    tasks, data = tasks_in(tmp_path / "alone", labels=[10, 50])
    expected = {task.name: comparable(execute(task, data).record) for task in tasks}
    assert outcome.missing == 0
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []
    for record in outcome.records:
        name = f"{record['network']}-L{record['labels']}-run{record['run']}"
        assert comparable(record) == expected[name]


@pytest.mark.parametrize(
    ("changes", "network"),
    [
        ({"mode": "fast"}, "ff"),
        ({}, "r"),
        ({"C": 10}, "ff"),  # starts from labeled class means
        ({"W_init": "class_means"}, "ff"),
        ({"tolerance": 0.1}, "ff"),
        ({"stopping": True}, "ff"),
        ({"inference": "truncated"}, "ff"),
        ({"train_size": 500}, "ff"),
        ({"backend": "c"}, "ff"),
    ],
)
def test_who_has_a_first_layer_to_itself(changes: dict[str, Any], network: str) -> None:
    parameters = validated({**HALF_A_TABLE, "overrides": [], **changes}, "HALF_A_TABLE")
    assert not learns_side_by_side(parameters, network, 10)
    assert learns_side_by_side(validated(HALF_A_TABLE, "HALF_A_TABLE"), "ff", 10)
