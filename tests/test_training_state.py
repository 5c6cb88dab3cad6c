"""Saving a training in the middle and continuing it, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from small_networks import make_data, make_trainer

from nesi.errors import NesiError

pytestmark = pytest.mark.usefixtures("one_thread")
KINDS = {
    "ff": {"network": "ff"},
    "r": {"network": "r"},
    "ff+": {"network": "ff+"},
    "r+": {"network": "r+"},
    "r, stopping": {"network": "r", "stopping": True, "iterations": 30},
    "ff, greedy": {"network": "ff", "greedy": True},
    "r+, greedy": {"network": "r+", "greedy": True},
}


def run(trainer, iterations):
    for _ in range(iterations):
        trainer.run_iteration()
    return trainer


def assert_same_state(one, other):
    assert one.keys() == other.keys()
    for name in one:
        if name != "history.seconds":
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("spec", KINDS)
def test_a_restored_training_continues_bit_for_bit(spec):
    X, labels = make_data()
    settings = {"iterations": 8, "threshold": 0.2} | KINDS[spec]
    uninterrupted = make_trainer(X, labels, **settings)
    total = uninterrupted.total_iterations
    run(uninterrupted, total)
    for middle in (1, total // 2, total - 1):
        state = {name: value.copy() for name, value in run(make_trainer(X, labels, **settings), middle).state().items()}
        resumed = make_trainer(X, labels, seed=99, **settings)
        resumed.restore(state)
        assert resumed.iteration == middle
        run(resumed, total - middle)
        assert_same_state(resumed.state(), uninterrupted.state())


@pytest.mark.parametrize(
    ("dtype", "layout", "backend"),
    [("float64", np.asarray, "numba"), ("float32", sp.csr_array, "numba"), ("float32", np.asarray, "c")],
)
def test_a_restored_training_continues_bit_for_bit_in_other_surroundings(dtype, layout, backend):
    X, labels = make_data()
    settings = {"iterations": 6, "dtype": dtype, "backend": backend}
    uninterrupted = run(make_trainer(layout(X), labels, **settings), 6)
    state = {name: value.copy() for name, value in run(make_trainer(layout(X), labels, **settings), 3).state().items()}
    resumed = make_trainer(layout(X), labels, seed=99, **settings)
    resumed.restore(state)
    assert_same_state(run(resumed, 3).state(), uninterrupted.state())


def test_a_state_is_plain_arrays_that_survive_a_file(tmp_path):
    X, labels = make_data()
    trainer = run(make_trainer(X, labels, network="r", stopping=True), 2)
    np.savez(tmp_path / "state.npz", **trainer.state())
    with np.load(tmp_path / "state.npz", allow_pickle=False) as file:
        resumed = make_trainer(X, labels, network="r", stopping=True, seed=5)
        resumed.restore(dict(file))
    assert_same_state(resumed.state(), trainer.state())


def test_a_state_of_other_settings_is_refused_and_changes_nothing():
    X, labels = make_data()
    trainer = make_trainer(X, labels)
    before = trainer.state()
    with pytest.raises(NesiError, match="The saved W is float32"):
        trainer.restore(make_trainer(X, labels, C=7).state())
    incomplete = make_trainer(X, labels).state()
    del incomplete["random_state"]
    with pytest.raises(NesiError, match="The saved state lacks random_state"):
        trainer.restore(incomplete)
    damaged = make_trainer(X, labels, seed=3).state() | {"random_state": np.zeros(4, np.uint8)}
    with pytest.raises(NesiError, match="random state is damaged"):
        trainer.restore(damaged)
    assert_same_state(trainer.state(), before)
