"""One training of W serves a whole column of the table, and changes no record."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SMALL
from small_runs import execute

from nesi.config.parameters import validated
from nesi.errors import NesiError
from nesi.experiment.cells import all_tasks, load_dataset, run_data
from nesi.experiment.local import side_by_side
from nesi.experiment.one_run import train_run
from nesi.experiment.running import run_experiment
from nesi.experiment.tasks import Progress
from nesi.storage.experiment_directory import ExperimentDirectory

COLUMN = {**SMALL, "networks": ["ff", "ff+", "r+"], "labels": [20, 50], "runs": 2, "threads": 1, "greedy": True}


def tasks_in(directory: Path, changes: dict[str, Any]) -> tuple[list[Any], Any]:
    (directory / "checkpoints").mkdir(parents=True, exist_ok=True)
    parameters = validated({**COLUMN, "keep_weights": "all", **changes}, "COLUMN")
    data = run_data(parameters, load_dataset(parameters, None))
    return all_tasks(parameters, data, ExperimentDirectory(directory)), data


def comparable(record: dict[str, Any]) -> dict[str, Any]:
    return {**record, "seconds": 0}


def test_units_that_know_their_labels_are_not_handed_on(tmp_path: Path) -> None:
    """R of a start from labeled points would bring the labels of another cell with it."""
    changes = {"networks": ["ff"], "labels": ["all", 20], "runs": 1, "R_init": "points", "iterations": 3}
    together, data = tasks_in(tmp_path / "together", changes)
    beside = [execute(task, data).record for task in together][1]
    (alone,), _ = tasks_in(tmp_path / "alone", {**changes, "labels": [20]})
    assert comparable(beside) == comparable(execute(alone, data).record)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
def test_a_cell_has_the_same_record_alone_and_beside_others(inference: str, tmp_path: Path) -> None:
    together, data = tasks_in(tmp_path / "together", {"inference": inference, "runs": 1})
    first_phase: list[str] = []

    def report(progress: Progress) -> None:
        if not progress.resumed and progress.iteration <= COLUMN["iterations"]:
            first_phase.append(progress.name)

    results = {task.name: train_run(task, data, report, lambda: False) for task in together}
    assert set(first_phase) == {together[0].name}, "W was trained more than once"
    alone, _ = tasks_in(tmp_path / "alone", {"inference": inference, "runs": 1})
    for task in alone:
        if task.labels == 50:
            for path in (tmp_path / "alone" / "checkpoints").iterdir():
                path.unlink()
            assert comparable(execute(task, data).record) == comparable(results[task.name].record)


def test_every_run_has_a_first_layer_of_its_own_unless_it_is_shared(tmp_path: Path) -> None:
    W: dict[bool, list[np.ndarray]] = {}
    for shared in (False, True):
        changes = {"share_first_layer": shared, "networks": ["ff"], "labels": [20]}
        tasks, data = tasks_in(tmp_path / str(shared), changes)
        results = [execute(task, data) for task in tasks]
        W[shared] = [result.network.W for result in results]
        assert [result.record["settings"]["share_first_layer"] for result in results] == [shared] * 2
    assert (W[False][0] != W[False][1]).any()
    np.testing.assert_array_equal(W[True][0], W[True][1])


def test_a_damaged_first_layer_is_trained_again(tmp_path: Path) -> None:
    tasks, data = tasks_in(tmp_path, {"runs": 1, "networks": ["ff"]})
    before = execute(tasks[1], data)
    (path,) = (tmp_path / "checkpoints").glob("first-layer-*.npz")
    path.write_bytes(path.read_bytes()[:1000])
    assert comparable(execute(tasks[1], data).record) == comparable(before.record)


def test_other_settings_of_the_first_layer_do_not_take_each_other_for_granted(tmp_path: Path) -> None:
    for C in (30, 31):
        tasks, data = tasks_in(tmp_path, {"runs": 1, "networks": ["ff"], "C": C})
        assert len(execute(tasks[0], data).network.W) == C
    assert len(list((tmp_path / "checkpoints").glob("first-layer-*.npz"))) == 2


def test_workers_wait_for_each_other_and_clean_up(tmp_path: Path) -> None:
    parameters = validated({**COLUMN, "networks": ["ff", "ff+"]}, "COLUMN")
    by_two = run_experiment(parameters, tmp_path / "two", workers=2, quiet=True)
    by_one = run_experiment(parameters, tmp_path / "one", workers=1, quiet=True)

    def of(outcome: Any) -> dict[Any, Any]:
        return {(r["network"], r["labels"], r["run"]): r["weights_sha256"] for r in outcome.records}

    assert len(by_two.records) == 8
    assert of(by_two) == of(by_one)
    assert list((tmp_path / "two" / "checkpoints").iterdir()) == []


def test_workers_that_are_given_runs_at_the_same_time_have_different_first_layers_to_train(tmp_path: Path) -> None:
    tasks, _ = tasks_in(tmp_path, {"networks": ["ff", "ff+"], "labels": [20], "runs": 3})
    ordered = [f"{task.network} {task.run}" for task in side_by_side(tasks, 2)]
    assert ordered == ["ff 1", "ff 2", "ff+ 1", "ff+ 2", "ff 3", "ff+ 3"]
    assert side_by_side(tasks, 1) == tasks, "one worker takes them in the order of the table"


def test_a_shared_first_layer_needs_shared_points() -> None:
    with pytest.raises(NesiError, match="share_first_layer is on, but with train_size every run has training points"):
        validated({**COLUMN, "share_first_layer": True, "train_size": 100}, "COLUMN")
