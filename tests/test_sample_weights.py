"""Weights per sample: as if a point were there as many times."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy_twin import m_step, normalised, softmax, unit_inputs
from small_networks import make_data

from nesi import NeSiClassifier, NesiError
from nesi.training.trainer import Trainer, TrainingSettings

pytestmark = pytest.mark.usefixtures("one_thread")


def make_model(**settings):
    defaults = {"n_subclasses": 6, "normalization": 40.0, "network": "ff+", "max_iter": 5, "random_state": 0}
    return NeSiClassifier(**(defaults | settings))


def trained(X, labels, rule, weights=None, C=4, W=None, batch_size=1000, network="r"):
    settings = TrainingSettings(
        network=network,
        C=C,
        A=40.0,
        epsilon_W=0.1,
        epsilon_R=0.1,
        iterations=1,
        minibatch_rule=rule,
        dtype="float64",
        shuffle=False,
        batch_size=batch_size,
    )
    trainer = Trainer(settings, X, labels, 3, np.random.default_rng(0), W, sample_weight=weights)
    trainer.run_iteration()
    return trainer


@pytest.mark.parametrize("network", ["ff", "r", "ff+", "r+"])
def test_in_a_summed_batch_a_weight_is_a_number_of_copies(network):
    X, labels = make_data(N=20)
    weights = np.arange(20) % 3 + 1
    W = np.random.default_rng(1).random((4, X.shape[1])) * 3 + 1
    copies = np.repeat(np.arange(20), weights)
    by_weight = trained(X, labels, "summed", weights, W=W, network=network)
    by_copies = trained(X[copies], labels[copies], "summed", W=W, network=network)
    np.testing.assert_allclose(by_weight.W, by_copies.W, rtol=1e-12)
    np.testing.assert_allclose(by_weight.R, by_copies.R, rtol=1e-12)
    assert by_weight.history["log_likelihood"] == pytest.approx(by_copies.history["log_likelihood"], rel=1e-12)


def test_one_after_the_other_a_weight_is_a_number_of_presentations():
    """Exactly so for a unit that is fully active, here the only one; R is taught by t = 1 in any case."""
    X, labels = make_data(N=20)
    weights = np.arange(20) % 3 + 1
    W = np.random.default_rng(1).random((1, X.shape[1])) * 3 + 1
    copies = np.repeat(np.arange(20), weights)
    by_weight = trained(X, labels, "sequential", weights, C=1, W=W)
    by_copies = trained(X[copies], labels[copies], "sequential", C=1, W=W)
    np.testing.assert_allclose(by_weight.W, by_copies.W, rtol=1e-12)
    np.testing.assert_allclose(by_weight.R, by_copies.R, rtol=1e-12)


@pytest.mark.parametrize("greedy", [False, True])
@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_array])
def test_a_point_without_weight_is_not_there(container, inference, greedy):
    X, labels = make_data()
    weights = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    used = weights > 0
    some = make_model(inference=inference, greedy=greedy).fit(container(X), labels, sample_weight=weights)
    alone = make_model(inference=inference, greedy=greedy).fit(container(X[used]), labels[used])
    np.testing.assert_array_equal(some.W_, alone.W_)
    np.testing.assert_array_equal(some.R_, alone.R_)


def test_equal_weights_of_one_change_nothing():
    X, labels = make_data()
    np.testing.assert_array_equal(
        make_model().fit(X, labels, sample_weight=np.ones(60)).W_, make_model().fit(X, labels).W_
    )


def test_learning_converges_to_the_weighted_m_step():
    """One class, small learning rates: W_c is the mean of the points, each weighted by w s_c."""
    X, _ = make_data(N=40)
    weights = np.random.default_rng(2).random(40) * 3
    y = np.array([normalised(x, 40.0) for x in X])
    W = None
    for factor in (0.3, 0.03, 0.003):
        model = make_model(network="r", n_subclasses=2, epsilon_w=factor, dtype="float64", max_iter=150, W_init=W)
        W = model.fit(X, np.zeros(40, int), sample_weight=weights).W_
    s = np.array([softmax(unit_inputs(y_n, np.ones(1), W, model.R_, True)) for y_n in y])
    weighted, plain = (m_step(y, s * w[:, None], np.ones((40, 1, 2)), 40.0)[0] for w in (weights, np.ones(40)))
    assert np.abs(W - weighted).max() < 0.02
    assert np.abs(W - plain).max() > 5 * np.abs(W - weighted).max()


def test_partial_fit_takes_weights_and_counts_them():
    X, labels = make_data()
    model = make_model().partial_fit(X, labels, classes=[0, 1, 2], sample_weight=np.full(60, 2.0))
    assert model.seen_ == (120.0, 2.0 * (labels >= 0).sum())
    model.partial_fit(X, labels)
    assert model.seen_[0] == 180


@pytest.mark.parametrize(
    ("weights", "message"), [(np.zeros(60), "at least one non-zero|are 0"), (-np.ones(60), "Negative values in data")]
)
def test_impossible_weights_are_explained(weights, message):
    X, labels = make_data()
    with pytest.raises(ValueError, match=message):
        make_model().fit(X, labels, sample_weight=weights)
    with pytest.raises(NesiError, match="sample weights"):
        Trainer(
            TrainingSettings(network="ff", C=3, A=40.0),
            X,
            labels,
            3,
            np.random.default_rng(0),
            sample_weight=-np.ones(60),
        )


def test_a_summed_batch_that_a_weight_makes_unstable_is_refused():
    X, labels = make_data(N=20)
    with pytest.raises(NesiError, match="are unstable"):
        trained(X, labels, "summed", np.where(np.arange(20) == 0, 400.0, 1.0))
