"""Initialisation, learning rates, mini-batches, history, and what stops a training."""

from __future__ import annotations

import numpy as np
import pytest
from numpy_twin import Twin, learning_rates, normalised
from small_networks import make_data, make_trainer

from nesi import NeSiClassifier
from nesi.errors import NesiError, TrainingFailed
from nesi.observations import Observations
from nesi.training.initialization import initial_weights, units_of_classes
from nesi.training.stopping import LikelihoodDrop, longer_or_faster, self_labeling_advice
from nesi.training.trainer import TrainingSettings

NETWORKS = ["ff", "r", "ff+", "r+"]
pytestmark = pytest.mark.usefixtures("one_thread")


def starts(W_start=None, R_start=None, X=None, labels=None, C=6, K=3):
    """W and R as training starts with them, float64."""
    if X is None:
        X, labels = make_data()
    settings = TrainingSettings(network="ff", C=C, A=30.0, dtype="float64")
    rng = np.random.default_rng(1)
    return initial_weights(W_start, R_start, Observations(X, 30.0), labels, K, settings, rng)


# ---- initialisation (Appendix B.2) -------------------------------------------------------------------------


def test_start_of_W_is_mean_plus_uniform_noise_up_to_two_deviations():
    X, labels = make_data()
    A, C = 30.0, 4000
    y = np.array([normalised(x, A) for x in X])
    mean, deviation = y.mean(axis=0), y.std(axis=0)
    W, _ = starts(None, None, X, labels, C)
    share = (W - mean) / (2 * deviation)
    assert share.min() >= -1e-12
    assert share.max() <= 1 + 1e-12
    standard_error = 2 * deviation / np.sqrt(12 * C)
    assert (np.abs(W.mean(axis=0) - mean - deviation) < 5 * standard_error).all()
    np.testing.assert_allclose(W.std(axis=0), 2 * deviation / np.sqrt(12), rtol=0.05)


def test_start_of_W_uses_the_labeled_points_of_each_class_in_the_complete_setting():
    X, labels = make_data()
    y = np.array([normalised(x, 30.0) for x in X])
    W, _ = starts("auto", None, X, labels, 3)
    for k in range(3):
        points = y[labels == k]
        assert (W[k] >= points.mean(axis=0) - 1e-12).all()
        assert (W[k] <= points.mean(axis=0) + 2 * points.std(axis=0) + 1e-12).all()


def test_one_label_per_class_makes_that_point_the_start():
    X, _ = make_data()
    labels = np.full(len(X), -1)
    labels[[4, 9, 2]] = [0, 1, 2]
    W, _ = starts("class_means", None, X, labels, 3)
    np.testing.assert_allclose(W, [normalised(X[n], 30.0) for n in (4, 9, 2)], rtol=1e-6)


def test_start_of_W_ignores_labels_if_a_class_has_none():
    X, labels = make_data()
    labels[labels == 2] = -1
    auto, plain = (starts(how, None, X, labels, 3)[0] for how in ("auto", "data"))
    np.testing.assert_array_equal(auto, plain)
    with pytest.raises(NesiError, match="class 2 has no labeled point"):
        starts("class_means", None, X, labels, 3)


def test_start_of_R_is_uniform_or_delta():
    np.testing.assert_array_equal(starts(C=8)[1], np.full((3, 8), 1 / 8))
    np.testing.assert_array_equal(starts(R_start="delta", C=3)[1], np.eye(3))
    blocks = starts(R_start="delta", C=8)[1]
    np.testing.assert_allclose(blocks.sum(axis=1), 1)
    assert [len(units) for units in units_of_classes(8, 3)] == [3, 3, 2]
    assert ((blocks > 0).sum(axis=0) == 1).all()


def test_start_can_be_given_as_arrays_that_are_checked():
    X, labels = make_data()
    W, R = np.full((6, 10), 2.0), np.full((3, 6), 1 / 6)
    trainer = make_trainer(X, labels, W_init=W, R_init=R, dtype="float64")
    np.testing.assert_array_equal(trainer.W, W)
    np.testing.assert_array_equal(trainer.R, R)
    with pytest.raises(NesiError, match=r"W_init has the shape \(6, 9\)"):
        make_trainer(X, labels, W_init=W[:, 1:])
    with pytest.raises(NesiError, match="W_init contains values that are not finite and positive"):
        make_trainer(X, labels, W_init=W * 0)
    with pytest.raises(NesiError, match="R_init contains values that are not finite and non-negative"):
        make_trainer(X, labels, R_init=-R)
    with pytest.raises(NesiError, match="R_init is 'even'"):
        make_trainer(X, labels, R_init="even")


# ---- learning rates ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_learning_rates_are_scaled_by_points_labels_and_units(network):
    X, labels = make_data()
    trainer = make_trainer(X, labels, network=network, epsilon_W=0.3, epsilon_R=0.7)
    L = int((labels >= 0).sum())
    assert not (labels >= 0).all()
    expected = learning_rates(network, len(X), L, 6, 3, 0.3, 0.7)
    assert (trainer._lesson.epsilon_W, trainer._lesson.epsilon_R) == pytest.approx(expected)


def test_learning_rates_are_at_most_one():
    X, labels = make_data()
    trainer = make_trainer(X, labels, epsilon_W=50.0, epsilon_R=50.0)
    assert (trainer._lesson.epsilon_W, trainer._lesson.epsilon_R) == (1, 1)


# ---- passes over the data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_weights_after_every_batch_are_those_computed_by_hand(network):
    """shuffle=False, minibatch_rule="summed": the paper's formulas, number for number, the last batch smaller."""
    X, labels = make_data(N=23)
    seen = []
    settings = {"network": network, "minibatch_rule": "summed", "dtype": "float64", "shuffle": False, "batch_size": 5}
    trainer = make_trainer(X, labels, **settings, epsilon_W=0.6, epsilon_R=0.6, threshold=0.2, iterations=3)
    start_W, start_R = trainer.W.copy(), trainer.R.copy()
    step = trainer._engine.step

    def watched(*arguments, **options):
        info = step(*arguments, **options)
        seen.append((trainer.W.copy(), trainer.R.copy()))
        return info

    trainer._engine.step = watched
    for _ in trainer:
        pass
    rates = learning_rates(network, len(X), int((labels >= 0).sum()), 6, 3, 0.6, 0.6)
    by_hand = Twin(network, start_W, start_R, 30.0, 0.2, "summed").train(X, labels, *rates, batch_size=5, iterations=3)
    assert len(seen) == len(by_hand) == 15
    for (W, R), (W_by_hand, R_by_hand) in zip(seen, by_hand, strict=True):
        np.testing.assert_allclose(W, W_by_hand, rtol=1e-10)
        np.testing.assert_allclose(R, R_by_hand, rtol=1e-10)
    model = NeSiClassifier(
        6, 30.0, network, 0.6, 0.6, 0.2, 3, 5, "summed", dtype="float64", shuffle=False, W_init=start_W, R_init=start_R
    ).fit(X, labels)
    np.testing.assert_allclose(model.W_, by_hand[-1][0], rtol=1e-10)
    np.testing.assert_allclose(model.R_, by_hand[-1][1], rtol=1e-10)
    if "+" in network:
        assert model.self_labeled_.max() > 0, "without self-labels this case would not show them"


def test_every_pass_shows_every_point_once_in_a_new_order():
    X, labels = make_data()
    X[:, 0] = np.arange(len(X)) + 1  # a name for every point
    orders = []

    def names_of(trainer):
        names = []
        step = trainer._engine.step

        def watched(points, *rest, **options):
            names.append(points[:, 0].copy())
            return step(points, *rest, **options)

        trainer._engine.step = watched
        for _ in range(2):
            names.clear()
            trainer.run_iteration()
            orders.append(np.concatenate(names).astype(int))

    names_of(make_trainer(X, labels, shuffle=True, batch_size=7))
    assert all(sorted(order) == list(range(1, 61)) for order in orders)
    assert (orders[0] != orders[1]).any()
    orders.clear()
    names_of(make_trainer(X, labels, shuffle=False, batch_size=7))
    assert all(list(order) == list(range(1, 61)) for order in orders)


def test_history_holds_one_value_per_pass_and_the_likelihood_of_the_twin():
    X, labels = make_data()
    settings = {"network": "r+", "batch_size": 60, "dtype": "float64", "minibatch_rule": "summed"}
    trainer = make_trainer(X, labels, **settings, epsilon_W=0.1, epsilon_R=0.1)
    W, R = trainer.W.copy(), trainer.R.copy()
    infos = list(trainer)
    assert [info.iteration for info in infos] == [1, 2, 3, 4]
    assert {name: len(values) for name, values in trainer.history.items()} == {
        "log_likelihood": 4,
        "self_labeled": 4,
        "seconds": 4,
    }
    at_the_start = Twin("r+", W, R, 30.0).log_likelihood(X, labels).mean()
    assert trainer.history["log_likelihood"][0] == pytest.approx(at_the_start, rel=1e-10)
    assert all(seconds > 0 for seconds in trainer.history["seconds"])
    assert trainer.trained().log_likelihood(X, labels) == pytest.approx(
        Twin("r+", trainer.W, trainer.R, 30.0).log_likelihood(X, labels), rel=1e-10
    )


@pytest.mark.parametrize("poison", [np.nan, -1.0, np.inf])
def test_useless_weights_end_the_training_with_an_explanation(poison):
    X, labels = make_data()
    trainer = make_trainer(X, labels)
    step = trainer._engine.step

    def poisoned(*arguments, **options):
        info = step(*arguments, **options)
        trainer.W[1, 2] = poison
        return info

    trainer._engine.step = poisoned
    with pytest.raises(TrainingFailed, match="no longer finite and non-negative"):
        trainer.run_iteration()
    assert trainer.history["log_likelihood"] == [], "a failed iteration is no result"


# ---- the stopping criterion (Section 4.3.2) --------------------------------------------------------------------


def first_stop(curve, width=20):
    """The criterion once more, from the text: the iteration that shows the drop, and the centre of its window."""
    best = -np.inf
    for last in range(width, len(curve) + 1):
        window = np.array(curve[last - width : last])
        if window.mean() > best:
            best = window.mean()
        elif window.mean() < best - window.std():
            return last, last - width // 2
    return None


def run_criterion(curve):
    criterion = LikelihoodDrop()
    for iteration, value in enumerate(curve, start=1):
        weights = {"W": np.full((2, 2), iteration), "R": np.full((1, 2), -iteration)}
        if criterion.update(iteration, value, weights):
            return iteration, *criterion.centre()
    return None


def test_criterion_stops_when_the_moving_average_has_dropped_and_returns_the_centre_of_the_window():
    rng = np.random.default_rng(0)
    curve = np.concatenate([np.linspace(-840, -833, 60), np.linspace(-833, -836, 120)]) + rng.normal(0, 0.05, 180)
    detected, centre, weights = run_criterion(curve)
    assert (detected, centre) == first_stop(curve)
    assert detected - centre == 10
    assert 60 < centre < 100
    assert weights["W"][0, 0] == centre
    assert weights["R"][0, 0] == -centre


def test_criterion_lets_a_rising_or_level_likelihood_pass():
    assert run_criterion(np.linspace(-840, -833, 200)) is None
    assert run_criterion(np.full(200, -833.0)) is None
    assert run_criterion(np.random.default_rng(1).normal(-833, 1, 200)) is None


def test_criterion_needs_a_full_window():
    assert run_criterion(-np.arange(19.0)) is None


def pretend_likelihoods(trainer, likelihoods):
    """Training goes on as ever, but the likelihoods of its first phase are these."""
    learn, curve = trainer._phase.learn, iter(likelihoods)
    trainer._phase.learn = lambda batches: learn(batches)._replace(log_likelihood=next(curve))


def test_training_that_was_stopped_returns_the_weights_of_the_centre():
    X, labels = make_data(N=30)
    fall = [*np.linspace(-50, -40, 25), *np.linspace(-40, -60, 60)]
    trainer = make_trainer(X, labels, stopping=True, iterations=85)
    pretend_likelihoods(trainer, fall)
    kept = [trainer.W.copy() for _ in trainer]
    detected, centre = first_stop(fall)
    assert trainer.iteration == detected
    assert trainer.stopped_at == centre
    np.testing.assert_array_equal(trainer.W, kept[centre - 1])


@pytest.mark.parametrize("stopping", [False, True])
def test_a_falling_likelihood_is_left_to_the_stopping_criterion(stopping):
    X, labels = make_data(N=30)
    fall = [*np.linspace(-50, -40, 5), *np.linspace(-40, -60, 60)]
    trainer = make_trainer(X, labels, stopping=stopping, tolerance=0.01, iterations=65)
    pretend_likelihoods(trainer, fall)
    for _ in trainer:
        pass
    if stopping:
        assert (trainer.iteration, trainer.stopped_at, trainer.converged_at) == (*first_stop(fall), None)
    else:
        assert (trainer.iteration, trainer.stopped_at, trainer.converged_at) == (20, None, 20)


def test_greedy_training_that_was_stopped_still_trains_the_second_layer():
    X, labels = make_data(N=30)
    fall = [*np.linspace(-50, -40, 25), *np.linspace(-40, -60, 60)]
    trainer = make_trainer(X, labels, stopping=True, greedy=True, iterations=60)
    pretend_likelihoods(trainer, fall)
    for _ in trainer:
        pass
    assert trainer.stopped_at is not None
    assert (np.abs(trainer.R - 1 / 6) > 0.01).any(), "R is still as it started"


def test_units_that_start_from_labeled_points_know_their_class():
    X, labels = make_data(N=60)
    start = {"inference": "truncated", "network": "r"}
    with_classes, without = (make_trainer(X, labels, R_init=R_init, **start) for R_init in ("points", None))
    np.testing.assert_array_equal(with_classes.W, without.W)
    mean = np.mean([normalised(x, 30.0) for x in X], axis=0)
    origins = [np.argmin([np.abs(2 * w - mean - normalised(x, 30.0)).sum() for x in X]) for w in with_classes.W]
    np.testing.assert_allclose(with_classes.R.sum(axis=1), 1, rtol=1e-6)
    known = labels[origins]
    assert (known >= 0).any()
    assert (known < 0).any()
    columns = with_classes.R / with_classes.R.sum(axis=0)
    for unit, label in enumerate(known):
        if label >= 0:
            assert columns[label, unit] > 0.8
        else:
            assert columns[:, unit].max() < 0.6
    with pytest.raises(NesiError, match="needs units that start from points"):
        make_trainer(X, labels, R_init="points", W_init="data")


ENGINES = {"exact": {}, "truncated": {"inference": "truncated"}, "layer by layer": {"greedy": True}}


@pytest.mark.parametrize("settings", ENGINES.values(), ids=ENGINES)
def test_weights_that_vanish_stay_at_a_floor_and_zeros_stay_zero(settings):
    classes = np.arange(60) % 3
    X = 100.0 * np.eye(3)[classes]  # so different that no point activates the unit of another class
    W = np.array([normalised(x, 203.0) for x in X[:3]])
    own = np.eye(3, dtype=bool)
    for start, expected in ((0.9 * own + 0.1 / 3, 1e-30), (own.astype(float), 0.0)):
        chosen = {"C": 3, "A": 203.0, "epsilon_R": 5.0, "iterations": 30, "W_init": W, "R_init": start, **settings}
        trainer = make_trainer(X, classes, **chosen)
        for _ in trainer:
            pass
        np.testing.assert_array_equal(trainer.R[~own], np.float32(expected))
        np.testing.assert_allclose(trainer.R[own], 1, rtol=1e-6)


# ---- advice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "unlabeled", "words"),
    [
        ([0.0] * 50, 0.9, "labels 0.0 % of the points itself, so self-labeling has hardly set in"),
        (list(np.linspace(0.1, 0.6, 50)), 0.9, "labels 60.0 % of the points itself, and more with every iteration"),
        ([0.0] * 20 + [0.8] * 30, 0.9, None),
        ([0.0] * 50, 0.0, None),  # every point has a label: nothing to do
        ([], 0.9, None),
    ],
)
def test_training_that_ends_before_self_labeling_gets_advice(share, unlabeled, words):
    advice = self_labeling_advice(share, unlabeled)
    assert advice is None if words is None else words in advice
    with_remedy = self_labeling_advice(share, unlabeled, "epsilon_r=1")
    assert with_remedy is None if words is None else with_remedy.endswith("(try epsilon_r=1).")


def test_the_advice_is_to_train_longer_or_faster():
    assert longer_or_faster(100, 0.2) == (200, 1.0)
    assert longer_or_faster(0, 0.1) == (100, 0.5)
    assert longer_or_faster(50, 2.0) == (100, 2.0)
