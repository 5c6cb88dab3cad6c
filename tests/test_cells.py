"""Which cells a table has, and with which parameters, where some training points have no label."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SMALL

from nesi.config import load_parameters
from nesi.config.parameters import validated
from nesi.config.shipped import shipped_files
from nesi.errors import NesiError
from nesi.experiment.cells import all_tasks
from nesi.experiment.tasks import RunData


def made_data(labeled: int, unlabeled: int, n_classes: int = 4) -> RunData:
    y = np.concatenate([np.arange(labeled) % n_classes, np.full(unlabeled, -1)])
    test = np.arange(n_classes)
    return RunData("made", np.ones((len(y), 9), np.uint8), y, np.ones((n_classes, 9), np.uint8), test, n_classes)


def parameters(**changes: Any) -> Any:
    return validated({**SMALL, "A": 300, "runs": 1, "networks": ["ff"], **changes}, "made")


def test_all_means_all_labels_also_for_overrides() -> None:
    given = parameters(labels=[8, "all"], overrides=[{"labels": ["all"], "iterations": 7}])
    tasks = all_tasks(given, made_data(40, 25), None)
    assert {task.labels: task.parameters.iterations == 7 for task in tasks} == {8: False, 40: True}


def test_more_labels_than_there_are_is_refused() -> None:
    with pytest.raises(NesiError, match="41 are asked for, but made has 40 labeled training points"):
        all_tasks(parameters(labels=[41]), made_data(40, 25), None)


@pytest.mark.parametrize("mode", ["fast", "paper"])
@pytest.mark.parametrize(("name", "classes"), [("emnist_digits", 10), ("emnist_letters", 52)])
def test_the_parameters_of_the_papers_table_hold_for_its_networks(name: str, classes: int, mode: str) -> None:
    """Section 4.4: those of MNIST, but a rate of the class layer of 1 x K/N with fewer than all labels."""
    file: Path = shipped_files()[name]
    given = load_parameters(file, {"mode": mode, "runs": 1})
    data = made_data(400 * classes, 0, classes)
    data = RunData(data.name, np.ones((400 * classes, 784), np.uint8), data.y_train, data.X_test, data.y_test, classes)
    cells = {(task.network, task.labels): task.parameters for task in all_tasks(given, data, None)}
    per_class = [1, 10, 60, 100, 300, 400]
    assert set(cells) == {(network, n * classes) for network in ("ff", "r", "ff+", "r+") for n in per_class}
    for (network, labels), cell in cells.items():
        one, every = labels == classes, labels == 400 * classes
        assert (cell.C, cell.A, cell.epsilon_W, cell.threshold) == (10000, 900, 0.2, 0.6)
        assert cell.epsilon_R == (1.0 if "+" in network and not every else 0.2)
        assert cell.iterations == (2000 if one and "+" in network else 500)
        assert cell.stopping == (network == "r" and not every)
        assert cell.greedy == (mode == "fast" and network != "r" and not (every and network == "r+"))
