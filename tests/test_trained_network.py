"""A trained network by itself: what it answers, saved and loaded, and that nothing in it changes."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy_twin import Twin
from small_networks import make_data, make_trainer

from nesi import TrainedNetwork
from nesi.errors import NesiError
from nesi.networks import NETWORKS
from nesi.storage.arrays import load_described_arrays, save_arrays

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trained():
    X, labels = make_data()
    trainer = make_trainer(X, labels, network="r+", dtype="float64", class_prior=[0.5, 0.3, 0.2])
    for _ in trainer:
        pass
    return trainer.trained()


def test_it_answers_as_the_trainer_has_learned():
    X, labels = make_data()
    trainer = make_trainer(X, labels, network="r", dtype="float64")
    for _ in trainer:
        pass
    network, twin = trainer.trained(), Twin("r", trainer.W, trainer.R, 30.0)
    np.testing.assert_allclose(network.log_likelihood(X, labels), twin.log_likelihood(X, labels), rtol=1e-10)
    np.testing.assert_allclose(network.posterior(sp.csr_array(X)), network.posterior(X), rtol=1e-6)
    np.testing.assert_allclose(network.activities(X), network.sparse_activities(X).toarray(), atol=1e-9)


def test_later_iterations_do_not_change_it():
    X, labels = make_data()
    trainer = make_trainer(X, labels)
    trainer.run_iteration()
    early = trainer.trained()
    W = early.W.copy()
    trainer.run_iteration()
    np.testing.assert_array_equal(early.W, W)
    with pytest.raises(ValueError, match="read-only"):
        early.W[0] = 1


def test_saved_and_loaded_it_is_the_same(trained, tmp_path: Path):
    X, _ = make_data()
    trained.save(tmp_path / "network.npz", {"made_by": "a test"})
    loaded = TrainedNetwork.load(tmp_path / "network.npz")
    for network in (loaded, pickle.loads(pickle.dumps(trained))):
        np.testing.assert_array_equal(network.posterior(X), trained.posterior(X))
        assert (network.network, network.A, network.computation) == (trained.network, trained.A, trained.computation)
        np.testing.assert_array_equal(network.class_prior, trained.class_prior)


def test_damaged_and_foreign_files_are_refused(trained, tmp_path: Path):
    path = tmp_path / "network.npz"
    trained.save(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    path.write_bytes(content)
    with pytest.raises(NesiError):
        TrainedNetwork.load(path)
    save_arrays(path, {"W": trained.W, "R": trained.R}, {})
    with pytest.raises(NesiError, match="holds no trained network of format 1"):
        TrainedNetwork.load(path)


@pytest.mark.parametrize(
    "change",
    [
        {"committee": 0},
        {"A": float("1e300")},
        {"A": 5},
        {"class_prior": [0.5, 0.5]},
        {"class_prior": "even"},
        {"label_noise": {}},
        {"network": ["ff"]},
        {"computation": 3},
        {"computation": {"backend": "gpu", "dtype": "float32", "inference": "exact", "active": 10}},
        {"computation": {"backend": "numba", "dtype": "object", "inference": "exact", "active": 10}},
    ],
)
def test_descriptions_that_cannot_be_true_are_refused(trained, tmp_path: Path, change):
    """In a file that is whole, as another program might have written it."""
    trained.save(tmp_path / "network.npz")
    arrays, about = load_described_arrays(tmp_path / "network.npz")
    save_arrays(tmp_path / "network.npz", arrays, {**about, **change})
    with pytest.raises(NesiError, match=r"network\.npz: damaged or not"):
        TrainedNetwork.load(tmp_path / "network.npz")


@pytest.mark.parametrize("about", [[], 5, None, "text"])
def test_a_description_is_a_dictionary(trained, tmp_path: Path, about):
    save_arrays(tmp_path / "network.npz", {"W": trained.W, "R": trained.R}, about)
    with pytest.raises(NesiError, match="damaged or not written by NeSi"):
        TrainedNetwork.load(tmp_path / "network.npz")


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_weights_that_are_no_weights_are_refused(trained, tmp_path: Path, value):
    trained.save(tmp_path / "network.npz")
    arrays, about = load_described_arrays(tmp_path / "network.npz")
    arrays["W"][1, 2] = value
    save_arrays(tmp_path / "network.npz", arrays, about)
    with pytest.raises(NesiError, match="weights are not finite and non-negative"):
        TrainedNetwork.load(tmp_path / "network.npz")


def test_weights_that_do_not_fit_together_are_refused():
    with pytest.raises(NesiError, match=r"W has the shape \(3, 4\) and R \(2, 5\)"):
        TrainedNetwork(NETWORKS["ff"], np.ones((3, 4)), np.ones((2, 5)), 10.0)


def test_the_search_for_neighbours_is_done_once(trained, monkeypatch: pytest.MonkeyPatch):
    from dataclasses import replace

    from nesi import trained as room

    made = []
    original = room.QuickInference
    monkeypatch.setattr(room, "QuickInference", lambda *arguments: made.append(1) or original(*arguments))
    quick = replace(trained, computation=replace(trained.computation, inference="truncated", dtype="float32"))
    X, _ = make_data()
    first, second = quick.posterior(X), quick.posterior(X)
    np.testing.assert_array_equal(first, second)
    assert made == [1]
