"""One run: interrupted and continued, it ends with the same weights as in one go, whatever the network and engine."""

from pathlib import Path
from typing import Any

import pytest
from command_line import SMALL
from small_runs import execute

from nesi.config.parameters import validated
from nesi.experiment.cells import all_tasks, load_dataset, run_data
from nesi.experiment.one_run import RunInterrupted
from nesi.storage.experiment_directory import ExperimentDirectory


@pytest.mark.parametrize(
    "changes",
    [
        {"networks": ["ff"]},
        {"networks": ["r"], "stopping": True, "iterations": 60},
        {"networks": ["ff+"], "greedy": True},
        {"networks": ["r+"], "greedy": True, "inference": "truncated", "tolerance": 0.01},
        {"networks": ["r+"], "minibatch_rule": "summed", "batch_size": 5},
        {"networks": ["r+"], "dtype": "float64"},
        {"networks": ["ff"], "inference": "truncated", "truncated": {"active": 5, "neighbours": 4}},
        {"networks": ["r+"], "inference": "truncated", "truncated": {"active": 5, "neighbours": 4}},
    ],
    ids=lambda changes: "-".join(str(value) for value in changes.values() if not isinstance(value, dict)),
)
def test_a_continued_run_ends_with_the_same_weights(changes: dict[str, Any], tmp_path: Path) -> None:
    for place in ("whole", "parts"):
        (tmp_path / place / "checkpoints").mkdir(parents=True)
    parameters = validated({**SMALL, **changes, "runs": 1, "threads": 1}, "SMALL")
    data = run_data(parameters, load_dataset(parameters, None))
    (task,) = all_tasks(parameters, data, ExperimentDirectory(tmp_path / "whole"))
    whole = execute(task, data)
    (task,) = all_tasks(parameters, data, ExperimentDirectory(tmp_path / "parts"))
    for _ in range(2):
        with pytest.raises(RunInterrupted):
            execute(task, data, stop_after=7)
    continued = execute(task, data)
    assert {**continued.record, "seconds": 0} == {**whole.record, "seconds": 0}
    assert len(continued.details["log_likelihood"]) == len(whole.details["log_likelihood"])
