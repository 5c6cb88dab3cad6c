"""What the paper says about learning: norms, likelihood, fixed points of EM; and that all ways to compute agree."""

from __future__ import annotations

import numpy as np
import numpy_twin as twin
import pytest
from sklearn.datasets import load_digits
from small_networks import make_data

from nesi import NeSiClassifier
from nesi.training.trainer import Trainer, TrainingSettings

NETWORKS = ["ff", "r", "ff+", "r+"]
pytestmark = pytest.mark.usefixtures("one_thread")


def digits(N=400, labeled=100):
    X, y = load_digits(return_X_y=True)
    return X[:N], np.where(np.arange(N) < labeled, y[:N], -1)


def make_model(**settings):
    defaults = {"n_subclasses": 20, "normalization": 150.0, "max_iter": 30, "random_state": 0}
    return NeSiClassifier(**(defaults | settings))


@pytest.mark.parametrize("network", NETWORKS)
def test_rows_of_W_tend_to_A_and_rows_of_R_to_one(network):
    X, labels = digits()
    start = make_model(network=network, max_iter=0).fit(X, labels)
    assert np.abs(start.W_.sum(axis=1) - 150).max() > 15
    off = np.random.default_rng(0).random((10, 20)).astype("float32")  # rows that sum to 10 or so
    trained = make_model(network=network, epsilon_w=0.5, epsilon_r=0.5, max_iter=60, R_init=off).fit(X, labels)
    used = trained.transform(X).sum(axis=0) > 5  # a unit that is never active learns nothing
    assert used.sum() > 10
    np.testing.assert_allclose(trained.W_.sum(axis=1)[used], 150, rtol=1e-3)
    np.testing.assert_allclose(trained.R_.sum(axis=1), 1, rtol=1e-3)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_log_likelihood_rises_on_average(network):
    X, labels = digits()
    curve = make_model(network=network, max_iter=40).fit(X, labels).log_likelihood_
    thirds = [part.mean() for part in np.array_split(curve, 4)]
    assert thirds == sorted(thirds)
    assert (np.diff(curve) > 0).mean() > 0.6
    assert curve[-1] > curve[0] + 1


def fixed_point(s, t, y, A):
    """Right-hand sides of eq. (WRLearning) with B = 1."""
    W, R = np.einsum("nc,nd->cd", s, y), np.einsum("nk,nc->kc", t, s)
    return A * W / W.sum(axis=1, keepdims=True), R / R.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("network", ["ff", "r"])
def test_online_learning_converges_to_a_fixed_point_of_em(network):
    """A real small training, its learning rates lowered step by step until the weights stand still."""
    X, labels = digits(N=300, labeled=150)
    settings = {"network": network, "n_subclasses": 12, "dtype": "float64", "batch_size": 10}
    W, R, distances = None, None, []
    for factor in (0.3, 0.1, 0.03, 0.01, 0.003):
        iterations = 60 if factor > 0.05 else 100
        model = make_model(**settings, epsilon_w=factor, epsilon_r=factor, max_iter=iterations, W_init=W, R_init=R).fit(
            X, labels
        )
        W, R = model.W_, model.R_
        y, s, _ = twin.Twin(network, W, R, 150.0).activities(X, labels)
        taught = twin.Twin(network, W, R, 150.0).teaching(s, labels)
        W_fixed, R_fixed = fixed_point(s, taught, y, 150.0)
        active = s.sum(axis=0) > 3
        distances.append((np.abs(W - W_fixed)[active].max() / W.mean(), np.abs(R - R_fixed).max()))
    W_distances, R_distances = np.array(distances).T
    assert W_distances[-1] < 0.005
    assert R_distances[-1] < 0.002
    assert W_distances[-1] < W_distances[0] / 3
    assert R_distances[-1] < R_distances[0] / 3
    if network == "r":  # eqs. (MstepW, MstepR); for unlabeled points R learns from nothing in the network
        np.testing.assert_allclose(twin.m_step(y, *twin.e_step(y, labels, W, R), 150.0)[0][active], W_fixed[active])


def test_em_never_lowers_the_free_energy_which_is_the_likelihood_at_the_posterior():
    X, labels = make_data(N=25)
    rng = np.random.default_rng(0)
    A = 30.0
    y = np.array([twin.normalised(x, A) for x in X])
    W, R = 2 + rng.random((5, 10)), rng.random((3, 5)) + 0.1
    W, R = A * W / W.sum(axis=1, keepdims=True), R / R.sum(axis=1, keepdims=True)
    energies = []
    for _ in range(15):
        s, p = twin.e_step(y, labels, W, R)
        energy = twin.free_energy(y, s, p, W, R)
        likelihood = sum(twin.log_likelihood(y[n], labels[n], W, R) for n in range(len(y)))
        assert energy == pytest.approx(likelihood, rel=1e-12)
        energies.append(energy)
        W, R = twin.m_step(y, s, p, A)
        energies.append(twin.free_energy(y, s, p, W, R))
    assert (np.diff(energies) > -1e-9).all()
    assert energies[-1] > energies[0] + 1


def test_the_network_gets_as_likely_as_em_from_the_same_start():
    """Same convergence points, other ways there: of the two neither ends much below the other."""
    X, labels = make_data(N=60, share_labeled=1)
    A = 30.0
    y = np.array([twin.normalised(x, A) for x in X])
    settings = {"n_subclasses": 3, "normalization": A, "network": "r", "dtype": "float64", "batch_size": 10}
    start = make_model(**settings, max_iter=0).fit(X, labels)
    W, R = start.W_, start.R_
    for _ in range(100):
        W, R = twin.m_step(y, *twin.e_step(y, labels, W, R), A)
    online = make_model(**settings, epsilon_w=0.02, epsilon_r=0.02, max_iter=400, W_init=start.W_).fit(X, labels)
    ours = twin.Twin("r", online.W_, online.R_, A).log_likelihood(X, labels).mean()
    theirs = twin.Twin("r", W, R, A).log_likelihood(X, labels).mean()
    assert ours == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize("network", ["ff", "r+"])
def test_batches_of_one_make_both_rules_the_online_rule(network):
    X, labels = make_data()
    settings = {"network": network, "n_subclasses": 6, "batch_size": 1, "max_iter": 2, "dtype": "float32"}
    summed, sequential = (
        make_model(minibatch_rule=rule, **settings).fit(X, labels) for rule in ("summed", "sequential")
    )
    np.testing.assert_allclose(summed.W_, sequential.W_, rtol=1e-4)
    np.testing.assert_allclose(summed.R_, sequential.R_, atol=1e-4)


def test_the_sequential_rule_is_closer_to_online_learning_than_the_summed_rule():
    X, labels = make_data()
    settings = {"network": "ff", "n_subclasses": 6, "max_iter": 1, "shuffle": False, "epsilon_w": 0.5}
    online = make_model(batch_size=1, minibatch_rule="sequential", **settings).fit(X, labels)
    summed = make_model(batch_size=15, minibatch_rule="summed", **settings).fit(X, labels)
    sequential = make_model(batch_size=15, minibatch_rule="sequential", **settings).fit(X, labels)
    assert np.abs(sequential.W_ - online.W_).mean() < np.abs(summed.W_ - online.W_).mean()


def test_backends_agree_on_a_whole_training(backend):
    X, labels = digits(N=200)
    settings = {"network": "r+", "dtype": "float64", "minibatch_rule": "summed", "batch_size": 10, "max_iter": 6}
    reference = make_model(**settings).fit(X, labels)
    model = make_model(backend=backend, **settings).fit(X, labels)
    np.testing.assert_allclose(model.W_, reference.W_, rtol=1e-9)
    np.testing.assert_allclose(model.R_, reference.R_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.log_likelihood_, reference.log_likelihood_, rtol=1e-10)
    np.testing.assert_array_equal(model.self_labeled_, reference.self_labeled_)


@pytest.mark.parametrize("network", NETWORKS)
def test_the_same_seed_gives_the_same_weights(network):
    X, labels = digits(N=200)
    one, same = (make_model(network=network, max_iter=3, random_state=4).fit(X, labels) for _ in range(2))
    other = make_model(network=network, max_iter=3, random_state=5).fit(X, labels)
    np.testing.assert_array_equal(one.W_, same.W_)
    np.testing.assert_array_equal(one.R_, same.R_)
    assert (one.W_ != other.W_).any()


def test_greedy_training_ends_at_the_fixed_point_of_the_second_layer():
    X, labels = digits()
    settings = {"network": "ff", "epsilon_r": 0.03, "max_iter": 300}
    greedy, joint = (make_model(greedy=way, **settings).fit(X, labels) for way in (True, False))
    np.testing.assert_allclose(greedy.W_, joint.W_, rtol=1e-4)
    for model in (greedy, joint):
        y, s, _ = twin.Twin("ff", model.W_, model.R_, 150.0).activities(X, labels)
        t = twin.Twin("ff", model.W_, model.R_, 150.0).teaching(s, labels)
        distance = np.abs(model.R_ - fixed_point(s, t, y, 150.0)[1])
        assert distance.mean() < 0.1 * model.R_.mean()
        assert distance.max() < 0.08  # entries up to 1 fluctuate by the learning rate's root
    assert np.mean(greedy.predict(X) == joint.predict(X)) > 0.97


def test_greedy_training_passes_twice_over_the_data_and_learns_one_layer_at_a_time():
    X, labels = make_data()
    settings = TrainingSettings(network="ff+", C=6, A=30.0, iterations=3, greedy=True)
    trainer = Trainer(settings, X, labels, 3, np.random.default_rng(0))
    weights = []
    for info in trainer:
        weights.append((info.phase, trainer.W.copy(), trainer.R.copy()))
    assert [phase for phase, _, _ in weights] == ["first"] * 3 + ["second"] * 3
    np.testing.assert_array_equal(weights[2][2], np.full((3, 6), 1 / 6, "float32"))
    np.testing.assert_array_equal(weights[5][1], weights[2][1])
    assert (weights[5][2] != weights[2][2]).any()


def test_a_recurrent_network_may_learn_its_layers_one_by_one_before_it_learns_both():
    X, labels = make_data()
    plain = {"C": 6, "A": 30.0, "iterations": 3, "greedy": True}
    r, ff = (
        Trainer(TrainingSettings(network=name, **plain), X, labels, 3, np.random.default_rng(0))
        for name in ("r+", "ff+")
    )
    phases = [info.phase for _, info in zip(range(6), r, strict=False)]
    assert phases == ["first"] * 3 + ["second"] * 3
    for _ in ff:
        pass
    np.testing.assert_array_equal(r.W, ff.W)  # so far it was a feedforward network
    np.testing.assert_array_equal(r.R, ff.R)
    joint = Trainer(
        TrainingSettings(network="r+", C=6, A=30.0, iterations=1), X, labels, 3, np.random.default_rng(1), r.W, r.R
    )
    assert r.phase == "both"
    np.testing.assert_allclose(r.trained().posterior(X), joint.trained().posterior(X), rtol=1e-6)
    assert [info.phase for info in r] == ["both"] * 3
    assert (r.W != ff.W).any()
    assert r.iteration == r.total_iterations == 9
