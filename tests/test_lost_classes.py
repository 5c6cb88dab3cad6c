"""Units and labels that no weight of R knows, extreme sample weights, and what is said when training fails."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from small_networks import make_data, make_model, make_trainer

from nesi import NeSiClassifier
from nesi.engines import exact
from nesi.errors import NesiError, TrainingFailed
from nesi.networks import get_network
from nesi.trained import TrainedNetwork
from nesi.training.failure import check_success

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("inference", ["exact", "truncated"])
def test_rows_of_predict_proba_sum_to_one_when_R_has_vanished(inference):
    """With epsilon_r = 1 and one label per class, each label makes R forget all but the units of its own point."""
    X, y = load_digits(return_X_y=True)
    X, y = X[:400], y[:400]
    labels = np.full(400, -1)
    labels[[np.flatnonzero(y == k)[0] for k in range(10)]] = np.arange(10)
    settings = {"network": "ff", "n_subclasses": 100, "normalization": 1000, "epsilon_r": 1, "max_iter": 8}
    model = NeSiClassifier(**settings, inference=inference, random_state=0).fit(X, labels)
    assert (~model.R_.any(axis=0)).sum() > 20
    for predict_inference in ("exact", "truncated"):
        posterior = model.set_params(predict_inference=predict_inference).predict_proba(X)
        np.testing.assert_allclose(posterior.sum(axis=1), 1, rtol=1e-5)
    assert np.isfinite(model.log_likelihood_).all()


def test_what_a_unit_without_class_explains_is_left_to_others_or_to_the_prior():
    W = np.array([[6.0, 1, 1], [1, 6, 1], [1, 1, 6]])
    R = np.array([[1.0, 0, 0], [0, 1, 0]])  # nobody knows unit 2
    network = TrainedNetwork(get_network("ff"), W, R, 8.0, np.array([0.3, 0.7]))
    points = np.array([[1.0, 0, 0], [0, 0, 1], [0.1, 0, 1]])
    s = network.activities(points).astype(np.float64)
    posterior = network.posterior(points)
    assert posterior[0, 0] > 0.999
    known = s[1:, :2]
    assert known.max() < 0.01
    np.testing.assert_allclose(posterior[1:], known / known.sum(axis=1, keepdims=True), rtol=1e-5)
    nobody = TrainedNetwork(get_network("ff"), W, 0 * R, 8.0, np.array([0.3, 0.7]))
    np.testing.assert_allclose(nobody.posterior(points), [[0.3, 0.7]] * 3, rtol=1e-6)


@pytest.mark.parametrize("network", ["ff", "r"])
@pytest.mark.parametrize(
    ("backend", "inference"), [("numba", "exact"), ("numba", "truncated"), ("c", "exact")], ids=str
)
def test_a_label_without_any_unit_has_a_finite_likelihood(network, backend, inference):
    X, labels = make_data()
    R = np.full((3, 6), 1 / 6)
    R[1] = 0
    trainer = make_trainer(X, labels, network=network, backend=backend, inference=inference, R_init=R, iterations=2)
    for info in trainer:
        assert -1000 < info.log_likelihood < 0
    trained = trainer.trained()
    assert np.isfinite(trained.log_likelihood(X, labels)).all()
    assert np.isfinite(trained.posterior(X)).all()


@pytest.mark.parametrize("weights", [np.full(60, 1e308), np.r_[1e308, np.ones(59)], np.full(60, 1e-308)])
def test_extreme_sample_weights_are_refused(weights):
    X, labels = make_data()
    for learn in (make_model(max_iter=1).fit, make_model().partial_fit):
        with pytest.raises(NesiError, match=r"largest sample weight is 1e[+-]308, but .* numbers around 1"):
            learn(X, labels, sample_weight=weights)


def failure(weight, log_likelihood=-1.0, **settings):
    trainer = make_trainer(*make_data(), **settings)
    phase = SimpleNamespace(learning=[np.array([weight])], changes_likelihood=True)
    with pytest.raises(TrainingFailed) as caught:
        check_success(phase, log_likelihood, trainer.settings, trainer.batch_size, 3)
    return str(caught.value)


def test_a_failed_training_names_the_reason():
    summed = failure(-1.0, minibatch_rule="summed", batch_size=5, epsilon_W=0.1, epsilon_R=0.1)
    assert "learning rate was too high" in summed
    assert "a batch_size below 5" in summed
    alone = failure(-1.0, minibatch_rule="summed", batch_size=1, epsilon_W=0.1, epsilon_R=0.1)
    assert "learning rate was too high" in alone
    assert "batch_size" not in alone
    for settings in ({}, {"training": "em", "network": "r", "minibatch_rule": "summed"}):
        extreme = failure(np.nan, **settings)
        assert "numbers were too extreme" in extreme
        assert "batch_size" not in extreme
    assert "log-likelihood is nan" in failure(1.0, float("nan"))


def test_a_label_that_never_occurs_is_refused():
    X, labels = make_data()
    noise = np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 0]])
    with pytest.raises(TrainingFailed, match="holds some point for impossible: look at label_noise"):
        make_model(label_noise=noise, max_iter=2).fit(X, labels)


def test_a_sum_that_vanishes_on_the_way_gets_a_sentence(monkeypatch):
    trainer = make_trainer(*make_data())
    function = exact._training_step(trainer._spec.graph, "WR")

    def divide(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(function, "_function", divide)
    with pytest.raises(NesiError, match="numbers in the training step were too extreme"):
        trainer.run_iteration()
