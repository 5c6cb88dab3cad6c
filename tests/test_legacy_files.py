"""The h5 files of the authors' program, written and read; damaged ones are refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from command_line import SMALL, records, run_here, sentences, write_params
from legacy_pictures import write_pictures

from data_tools import DataError, load
from nesi.config.parameters import validated
from nesi.errors import NesiError
from nesi.experiment.cells import all_tasks
from nesi.experiment.one_run import _training_set
from nesi.experiment.point_choice import PointList, choose_points
from nesi.experiment.tasks import RunData
from nesi.labels import mask_labels
from nesi.legacy.h5_files import (
    find_point_list,
    find_weights,
    read_point_list,
    read_weights,
    write_point_list,
    write_weights,
)

POINTS = PointList(np.array([1, 5, 9]), np.array([0, 2, 3, 4]), np.array([7, 8]))


def test_weights_survive_being_written_and_read(tmp_path: Path) -> None:
    W = np.random.default_rng(0).random((7, 5)).astype(np.float32)
    path = tmp_path / "Run3M1L1.h5"
    write_weights(path, W)
    np.testing.assert_array_equal(read_weights(path, (7, 5)), W)
    with h5py.File(path) as file:
        assert list(file) == ["W"]
        assert (file["W"].dtype, file["W"].shape) == (np.float32, (7, 5))
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_of_several_slices_the_first_counts(tmp_path: Path) -> None:
    stack = np.random.default_rng(0).random((4, 7, 5))
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file["W"] = stack
    np.testing.assert_array_equal(read_weights(tmp_path / "w.h5", (7, 5)), stack[0])


def test_files_are_found_by_run_and_layer(tmp_path: Path) -> None:
    assert find_weights(str(tmp_path), 3, 1, 2) == tmp_path / "Run3M1L2.h5"
    assert find_weights(str(tmp_path / "one.h5"), 3, 1, 2) == tmp_path / "one.h5"
    assert find_point_list(str(tmp_path), 3) == find_point_list(f"{tmp_path}/", 3) == tmp_path / "Run3Data.h5"
    assert find_point_list(str(tmp_path / "old-"), 3) == tmp_path / "old-Run3Data.h5"
    (tmp_path / "list.h5").touch()
    assert find_point_list(str(tmp_path / "list.h5"), 3) == tmp_path / "list.h5"


def test_point_lists_survive_being_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "Run1Data.h5"
    write_point_list(path, POINTS)
    for written, read in zip(POINTS, read_point_list(path, 10, 10), strict=True):
        np.testing.assert_array_equal(written, read)
    with h5py.File(path) as file:
        assert sorted(file["train"]) == ["labeled", "unlabeled"]
        assert file["test"][()].tolist() == [7, 8]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"V": np.ones((2, 2))}, "lacks the data set W"),
        ({"W/inside": np.ones((2, 2))}, "lacks the data set W"),
        ({"W": np.ones((2, 3))}, "shape \\(2, 3\\), but this network needs \\(2, 2\\)"),
        ({"W": -np.ones((2, 2))}, "not finite and non-negative"),
        ({"W": np.full((2, 2), np.nan)}, "not finite and non-negative"),
        ({"W": np.array([[b"a", b"b"], [b"c", b"d"]])}, "not finite and non-negative"),
        ({"W": np.float64(3)}, "shape \\(\\)"),
    ],
)
def test_weights_that_are_none_are_refused(content: dict, words: str, tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        for name, value in content.items():
            file[name] = value
    with pytest.raises(NesiError, match=words):
        read_weights(tmp_path / "w.h5", (2, 2))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    write_weights(tmp_path / "w.h5", np.ones((30, 30)))
    content = (tmp_path / "w.h5").read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        damaged = bytearray(content)
        for place in rng.integers(0, 800, 8):
            damaged[place] = rng.integers(256)
        (tmp_path / "d.h5").write_bytes(damaged[: rng.integers(1, len(damaged) + 1)])
        try:
            weights = read_weights(tmp_path / "d.h5", (30, 30))
        except NesiError:
            continue
        assert weights.shape == (30, 30)
    with pytest.raises(NesiError, match="no such h5 file"):
        read_weights(tmp_path / "missing.h5", (2, 2))


def test_a_file_that_claims_to_be_enormous_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "w.h5", "w") as file:
        file.create_dataset("W", shape=(10**6, 10**6), dtype="f4", chunks=(100, 100))
    with pytest.raises(NesiError, match="damaged"):
        read_weights(tmp_path / "w.h5", (2, 2))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"labeled": np.array([1, 10])}, "names the point 10, but the data has 10"),
        ({"labeled": np.array([-1, 2])}, "train/labeled"),
        ({"labeled": np.array([0, 5])}, "twice"),
        ({"test": np.array([[1], [2]])}, "not a vector"),
    ],
)
def test_point_lists_that_are_none_are_refused(changed: dict, words: str, tmp_path: Path) -> None:
    write_point_list(tmp_path / "d.h5", POINTS._replace(**changed))
    with pytest.raises(NesiError, match=words):
        read_point_list(tmp_path / "d.h5", 10, 10)


# ---- in a run --------------------------------------------------------------------------------------------------------


def made_task(folder: Path, **legacy):
    content = {**SMALL, "networks": ["r"], "labels": [3], "runs": 2, "train_size": 7, "test_size": 2, "A": 60}
    parameters = validated({**content, "legacy": legacy}, "here")
    X = np.random.default_rng(0).random((10, 20)) + 0.1
    data = RunData("made", X, np.arange(10) % 3, X, np.arange(10) % 3, 3)
    return all_tasks(parameters, data, None)[1], data


def test_an_index_list_gives_the_same_labels(tmp_path: Path) -> None:
    write_point_list(tmp_path / "Run2Data.h5", POINTS)
    task, data = made_task(tmp_path, index_list=f"{tmp_path}/")
    points = choose_points(task, data)
    X, labels = _training_set(data, points)
    np.testing.assert_array_equal(X, data.X_train[[0, 1, 2, 3, 4, 5, 9]])
    np.testing.assert_array_equal(labels, mask_labels(data.y_train, [1, 5, 9])[[0, 1, 2, 3, 4, 5, 9]])
    assert points.test.tolist() == [7, 8]


def test_a_label_list_keeps_labels_and_test_points_and_draws_the_others(tmp_path: Path) -> None:
    write_point_list(tmp_path / "Run2Data.h5", POINTS)
    task, data = made_task(tmp_path, label_list=str(tmp_path), draw=True)
    points = choose_points(task, data)
    assert (points.labeled.tolist(), points.test.tolist()) == ([1, 5, 9], [7, 8])
    assert len(points.unlabeled) == 4
    assert not set(points.unlabeled) & {1, 5, 9}


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (POINTS._replace(labeled=np.array([1, 5])), "has 2 labeled points, but 3 labels were asked for"),
        (POINTS._replace(unlabeled=np.array([0])), "4 training points for run 2, but train_size is 7"),
    ],
)
def test_a_list_of_other_numbers_is_refused(points: PointList, words: str, tmp_path: Path) -> None:
    write_point_list(tmp_path / "Run2Data.h5", points)
    task, data = made_task(tmp_path, index_list=f"{tmp_path}/")
    with pytest.raises(NesiError, match=words):
        choose_points(task, data)


@pytest.mark.parametrize("W_init", ["single_points", "random", "even"])
def test_the_other_starts_of_the_authors_program(W_init: str, tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", networks=["ff"], runs=1, iterations=3, W_init=W_init, R_init="random")
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert code == 0, errors
    assert records(tmp_path / "out")["ff", 20, 1]["settings"]["W_init"] == W_init


def test_missing_weights_are_one_sentence(tmp_path: Path) -> None:
    params = write_params(tmp_path / "p.yaml", networks=["ff"], runs=1, W_init={"h5": str(tmp_path / "none.h5")})
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert (code, len(sentences(errors))) == (2, 1)
    assert "none.h5: no such h5 file" in errors


# ---- data ------------------------------------------------------------------------------------------------------------


def test_classes_can_be_chosen(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path)
    everything = load(str(folder))
    some = load(str(folder), classes=["7", "2"])
    assert some.class_names == ("7", "2")
    np.testing.assert_array_equal(some.X_train[some.y_train == 0], everything.X_train[everything.y_train == 7])
    np.testing.assert_array_equal(some.X_test[some.y_test == 1], everything.X_test[everything.y_test == 2])
    for wrong in (["7", "7"], ["17"], []):
        with pytest.raises(DataError):
            load(str(folder), classes=wrong)


@pytest.mark.real_data
def test_the_authors_folders_with_the_real_data(real_data: Path, tmp_path: Path) -> None:
    """The same files under the authors' names are the same data."""
    links = {"data-sets/MNIST": "mnist", "data-sets/20Newsgroups": "20news"}
    for there, here in links.items():
        (tmp_path / there).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / there).symlink_to(real_data / here)
    theirs, ours = load(str(tmp_path / "data-sets/MNIST")), load("mnist", data_dir=real_data)
    np.testing.assert_array_equal(theirs.X_train[:1000], ours.X_train[:1000])
    np.testing.assert_array_equal(theirs.y_test, ours.y_test)
    texts = load(str(tmp_path / "data-sets/20Newsgroups"), idf="legacy")
    assert texts.X_train.shape == (11269, 61188)
    assert (texts.X_test != load("newsgroups20", data_dir=real_data, idf="legacy").X_test).nnz == 0
