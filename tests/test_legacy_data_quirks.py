"""The quirks of the authors' program in what a training starts from: points, labels, tf-idf and initial weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from command_line import SMALL

from nesi.config.parameters import validated
from nesi.experiment.cells import all_tasks, load_dataset
from nesi.experiment.one_run import _training_set
from nesi.experiment.point_choice import choose_points
from nesi.experiment.tasks import RunData
from nesi.experiment.trainers import trainer_of_run

pytestmark = pytest.mark.usefixtures("one_thread")

# ---- class means off by one -----------------------------------------------------------------------------------------


def task_and_data(**changes):
    """Ten classes of which point i has class i mod 10, with one label each: the start is then made of single points."""
    content = {**SMALL, "networks": ["r"], "labels": [10], "runs": 1, "C": 10, "A": 60, **changes}
    parameters = validated(content, "here")
    X = np.random.default_rng(0).random((60, 20)) + 0.1
    data = RunData("made", X, np.arange(60) % 10, X[:20], np.arange(20) % 10, 10)
    return all_tasks(parameters, data, None)[0], data


@pytest.mark.parametrize("W_init", [None, "class_means"])
def test_the_last_class_gets_no_unit(W_init: str | None) -> None:
    for legacy, classes in ((None, range(10)), ({"class_start": True}, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8])):
        task, data = task_and_data(legacy=legacy, W_init=W_init)
        points = choose_points(task, data)
        X, labels = _training_set(data, points)
        W = trainer_of_run(task, X, labels, 10).W
        for unit, k in enumerate(classes):
            x = X[np.flatnonzero(labels == k)[0]]
            np.testing.assert_allclose(W[unit], 40 * x / x.sum() + 1, rtol=1e-5)


def test_more_units_than_classes_are_divided_among_all_but_the_last() -> None:
    task, data = task_and_data(legacy={"class_start": True}, W_init="class_means", C=20)
    X, labels = _training_set(data, choose_points(task, data))
    W = trainer_of_run(task, X, labels, 10).W
    found = [int(np.argmin([abs(row - (40 * x / x.sum() + 1)).sum() for x in X[:]])) for row in W]
    assert [int(data.y_train[point]) for point in found] == [k for k in range(9) for _ in range(2 + (k in (4, 8)))]


# ---- drawing --------------------------------------------------------------------------------------------------------


def test_labels_are_drawn_before_the_other_points() -> None:
    """30 points, all labeled: three of each class in the authors' program; ours draws the points first."""
    for legacy, even in (({"draw": True}, True), (None, False)):
        task, data = task_and_data(train_size=30, labels=[30], test_size=10, legacy=legacy)
        points = choose_points(task, data)
        assert (len(points.labeled), len(points.unlabeled), len(points.test)) == (30, 0, 10)
        assert (np.bincount(points.labeled % 10, minlength=10) == 3).all() == even
        assert np.bincount(points.test % 10).tolist() == [1] * 10


def test_uneven_labels() -> None:
    task, data = task_and_data(labels=[20], test_size=10, legacy={"draw": True, "even_labels": False})
    points = choose_points(task, data)
    assert len(points.training) == 60
    assert np.bincount(points.labeled % 10, minlength=10).tolist() != [2] * 10
    assert np.bincount(points.test % 10, minlength=10).tolist() != [1] * 10


# ---- idf ------------------------------------------------------------------------------------------------------------


def test_the_idf_is_floored_and_each_set_has_its_own(tmp_path: Path) -> None:
    """Every document has a word of its own and, up to the second training and the first test document, word 1."""
    sizes, with_first_word = {"train": 7, "test": 5}, {"train": 2, "test": 1}
    for split, count in sizes.items():
        lines = [f"{n} 1 3" for n in range(1, 1 + with_first_word[split])]
        lines += [f"{n} {n + 1} 1" for n in range(1, 1 + count)]
        (tmp_path / f"{split}.data").write_text("\n".join(lines) + "\n")
        (tmp_path / f"{split}.label").write_text("\n".join(str(1 + n % 2) for n in range(count)) + "\n")
    (tmp_path / "train.map").write_text("one 1\ntwo 2\n")
    (tmp_path / "vocabulary.txt").write_text("\n".join("abcdefgh") + "\n")
    params = {**SMALL, "dataset": str(tmp_path)}
    paper = load_dataset(validated(params, "here"), None)
    authors = load_dataset(validated({**params, "legacy": {"idf": True}}, "here"), None)
    assert [paper.X_train[0, 0], paper.X_test[0, 0]] == pytest.approx([3 * np.log(7 / 3), 3 * np.log(7 / 3)])
    assert [authors.X_train[0, 0], authors.X_test[0, 0]] == pytest.approx([3 * np.log(7 // 3), 3 * np.log(5 // 2)])
    explicit = load_dataset(validated({**params, "legacy": {"idf": True}, "data": {"idf": "paper"}}, "here"), None)
    assert explicit.X_train[0, 0] == paper.X_train[0, 0]


def test_the_idf_of_pictures_is_no_matter() -> None:
    digits = load_dataset(validated({**SMALL, "legacy": {"idf": True}}, "here"), None)
    assert digits.X_train.shape[1] == 64
