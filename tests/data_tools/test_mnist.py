"""MNIST and Fashion-MNIST."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
from made_files import idx_bytes, write_idx

from data_tools import DataError, load
from data_tools.mnist import find_parts, is_present, load_mnist
from data_tools.newsgroups import find_matlab_folder

TRAIN_COUNTS = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
TEST_COUNTS = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@pytest.mark.real_data
def test_mnist_has_the_official_counts_and_values(real_data: Path) -> None:
    mnist = load("mnist", data_dir=real_data)
    assert mnist.X_train.shape == (60000, 784)
    assert mnist.X_test.shape == (10000, 784)
    assert mnist.X_train.dtype == np.uint8
    assert np.bincount(mnist.y_train).tolist() == TRAIN_COUNTS
    assert np.bincount(mnist.y_test).tolist() == TEST_COUNTS
    assert mnist.X_train.max() == 255
    # The well-known mean and standard deviation of the training pixels.
    assert mnist.X_train.mean() / 255 == pytest.approx(0.1307, abs=5e-5)
    assert (mnist.X_train.std(dtype=np.float64)) / 255 == pytest.approx(0.3081, abs=5e-5)
    assert mnist.class_names == tuple("0123456789")
    assert mnist.image_shape == (28, 28)
    assert (mnist.X_train.max(axis=0) == mnist.X_train.min(axis=0)).sum() == 67


@pytest.mark.real_data
def test_the_data_folder_can_be_given_by_the_environment(real_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESI_DATA", str(real_data))
    assert len(load("mnist", fetch=False).y_train) == 60000


@pytest.mark.real_data
def test_unpacked_files_with_dots_are_the_same_data(real_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, path in find_parts(real_data / "mnist").items():
        dotted = path.name.removesuffix(".gz").replace(f"{part}-", f"{part}.")
        (folder / dotted).write_bytes(gzip.decompress(path.read_bytes()))
    ours, theirs = load("mnist", data_dir=tmp_path), load("mnist", data_dir=real_data)
    assert np.array_equal(ours.X_train, theirs.X_train)
    assert np.array_equal(ours.y_test, theirs.y_test)


@pytest.mark.real_data
def test_wrong_labels_and_swapped_files_are_refused(real_data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "mnist"
    shutil.copytree(real_data / "mnist", folder)
    folder.chmod(0o755)
    labels = folder / "t10k-labels-idx1-ubyte.gz"
    labels.unlink()
    write_idx(labels, np.full(10000, 11, dtype=np.uint8))
    with pytest.raises(DataError, match=r"t10k-labels-idx1-ubyte.gz holds the label 11"):
        load_mnist(folder)
    labels.unlink()
    shutil.copy(folder / "train-labels-idx1-ubyte.gz", labels)
    with pytest.raises(DataError, match="10000 images but 60000 labels"):
        load_mnist(folder)


def test_a_data_set_of_another_size_is_not_taken_for_mnist(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        (tmp_path / f"{part}-images-idx3-ubyte").write_bytes(idx_bytes(np.ones((5, 28, 28))))
        (tmp_path / f"{part}-labels-idx1-ubyte").write_bytes(idx_bytes(np.arange(5)))
    with pytest.raises(DataError, match=r"expected \(60000, 28, 28\)"):
        load_mnist(tmp_path)


def test_a_missing_file_is_said_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train-images.*fetch mnist"):
        load_mnist(tmp_path)


def test_fashion_mnist_is_read_from_the_systems_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "fashion-mnist"
    folder.mkdir()
    for part, size in (("train", 60000), ("t10k", 10000)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", np.ones((size, 28, 28), dtype=np.uint8))
        write_idx(folder / f"{part}-labels-idx1-ubyte.gz", np.arange(size) % 10)
    monkeypatch.setattr("data_tools.locations.SYSTEM_DATA", tmp_path)
    fashion = load("fashion-mnist", fetch=False)
    assert fashion.class_names[9] == "Ankle boot"
    assert np.bincount(fashion.y_train).tolist() == [6000] * 10


def test_a_folder_that_cannot_exist_is_not_there() -> None:
    assert not is_present(Path("x" * 5000))
    assert find_matlab_folder(Path("x" * 5000)) is None
