"""NeSiClassifier: labels of all kinds, dense and sparse data, its methods."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy_twin import Twin
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from small_networks import make_data, make_model

from nesi import NeSiClassifier
from nesi.errors import NesiError

NETWORKS = ["ff", "r", "ff+", "r+"]
pytestmark = pytest.mark.usefixtures("one_thread")


def fully_labeled(N=90):
    X, _ = make_data(N=N)
    return X, np.arange(N) % 3


# ---- labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names",
    [
        np.array([3, 7, 11]),
        np.array([0.5, 1.0, 2.0]),
        np.array(["ape", "bee", "cat"]),
        np.array(["ape", "bee", "cat"], dtype=object),
        np.array([0, 1, 2], dtype=object),
        np.array([0, 1, 2], dtype=np.uint8),
    ],
    ids=["int", "float", "str", "objects", "int objects", "unsigned"],
)
def test_labels_may_be_of_any_sortable_type(names):
    X, y = fully_labeled()
    if names.dtype.kind == "f":
        names = np.array([0.0, 1.0, 2.0])  # scikit-learn takes other fractions for a regression target
    model = make_model().fit(X, names[y])
    np.testing.assert_array_equal(model.classes_, names)
    assert (model.predict(X) == names[y]).mean() > 0.9
    np.testing.assert_array_equal(model.W_, make_model().fit(X, y).W_)


def test_unlabeled_is_minus_one_among_numbers_and_none_among_names():
    X, labels = make_data()
    names = np.array(["ape", "bee", "cat"], dtype=object)
    by_name = np.array([None if label < 0 else names[label] for label in labels], dtype=object)
    numbers, named = make_model().fit(X, labels), make_model().fit(X, by_name)
    np.testing.assert_array_equal(numbers.classes_, [0, 1, 2])
    np.testing.assert_array_equal(named.classes_, names)
    np.testing.assert_array_equal(named.R_, numbers.R_)
    np.testing.assert_array_equal(names[numbers.predict(X)], named.predict(X))


@pytest.mark.parametrize("network", NETWORKS)
def test_without_any_label_the_first_layer_still_learns(network):
    X, _ = make_data()
    without, with_minus_one = make_model(network=network).fit(X), make_model(network=network).fit(X, np.full(60, -1))
    np.testing.assert_array_equal(without.W_, with_minus_one.W_)
    np.testing.assert_array_equal(without.classes_, [-1])
    assert without.log_likelihood_[-1] > without.log_likelihood_[0]
    assert without.transform(X).shape == (60, 6)


@pytest.mark.parametrize("network", NETWORKS)
def test_with_all_labels_self_labeling_changes_nothing(network):
    """The paper: fully labeled, the + networks are identical to those without."""
    X, y = fully_labeled()
    model, plain = make_model(network=network).fit(X, y), make_model(network=network.rstrip("+")).fit(X, y)
    np.testing.assert_allclose(model.W_, plain.W_, rtol=1e-5)
    np.testing.assert_allclose(model.R_, plain.R_, atol=1e-6)
    assert model.score(X, y) > 0.9
    assert not model.self_labeled_.any()


def test_few_labels_and_many_points_are_enough_for_separate_classes():
    X, y = fully_labeled(N=300)
    labels = np.full(300, -1)
    labels[:6] = y[:6]
    model = make_model(max_iter=60, n_subclasses=10).fit(X, labels)
    assert model.score(X[6:], y[6:]) > 0.85


# ---- methods -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
def test_sparse_and_dense_data_give_the_same_network(network):
    X, labels = make_data()
    X = X * (X > 2)
    X[:, 0] += 1
    dense, sparse = (make_model(network=network, dtype="float64").fit(data, labels) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.W_, dense.W_, rtol=1e-9)
    np.testing.assert_allclose(sparse.R_, dense.R_, rtol=1e-9)
    np.testing.assert_allclose(dense.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-9)
    np.testing.assert_allclose(dense.score_samples(sp.csr_array(X)), dense.score_samples(X), rtol=1e-9)


@pytest.mark.parametrize("network", ["ff", "r"])  # in float32 a self-label may differ that is just at the threshold
def test_sparse_and_dense_data_give_the_same_network_in_float32(network):
    X, labels = make_data()
    X = X * (X > 2)
    X[:, 0] += 1
    dense, sparse = (make_model(network=network).fit(data, labels) for data in (X, sp.csr_array(X)))
    np.testing.assert_allclose(sparse.W_, dense.W_, rtol=1e-4)
    np.testing.assert_allclose(sparse.R_, dense.R_, atol=1e-4)
    np.testing.assert_allclose(dense.predict_proba(sp.csr_array(X)), dense.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_inference_is_that_of_the_twin(network):
    X, labels = make_data()
    model = make_model(network=network, max_iter=5).fit(X, labels)
    twin = Twin(network, model.W_, model.R_, 40.0)
    unlabeled = np.full(len(X), -1)
    _, s, t = twin.activities(X, unlabeled)
    np.testing.assert_allclose(model.transform(X), s, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(model.predict_proba(X), t, rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(model.score_samples(X), twin.log_likelihood(X, unlabeled), rtol=1e-5)
    np.testing.assert_array_equal(model.predict(X), t.argmax(axis=1))
    assert model.score(X, np.arange(60) % 3) == np.mean(t.argmax(axis=1) == np.arange(60) % 3)


def test_probabilities_and_activities_sum_to_one():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.transform(X).sum(axis=1), 1, rtol=1e-5)


def test_a_point_gets_the_same_answer_alone_and_in_company():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    np.testing.assert_array_equal(model.predict_proba(X[7:8]), model.predict_proba(X)[7:8])


def test_samples_have_the_moments_of_the_generative_model():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    drawn, classes = model.sample(20000, random_state=1)
    shares = np.bincount(classes, minlength=3) / 20000
    np.testing.assert_allclose(shares, 1 / 3, atol=5 * np.sqrt(2 / 9 / 20000))
    for k in range(3):
        prior = model.R_[k] / model.R_[k].sum()
        mean = prior @ model.W_
        variance = prior @ (model.W_ + model.W_**2) - mean**2
        points = drawn[classes == k]
        assert (np.abs(points.mean(axis=0) - mean) < 5 * np.sqrt(variance / len(points))).all()
    np.testing.assert_array_equal(drawn, drawn.round())
    np.testing.assert_array_equal(model.sample(5, random_state=1)[0], model.sample(5, random_state=1)[0])


def test_what_was_learned_is_documented_in_attributes():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    assert model.W_.shape == (6, 10)
    assert model.R_.shape == (3, 6)
    assert (model.n_iter_, model.stopped_, model.n_features_in_) == (15, False, 10)
    assert len(model.log_likelihood_) == len(model.self_labeled_) == 15
    assert (model.n_subclasses_, model.normalization_) == (6, 40.0)


def test_a_stream_has_size_and_normalization_from_its_first_part():
    X, labels = make_data()
    model = NeSiClassifier().partial_fit(X, labels)
    assert model.n_subclasses_ == 10
    assert model.normalization_ == 110
    assert model.choices_ == {}


def test_a_clone_has_the_same_settings_and_learns_the_same():
    X, labels = make_data()
    model = make_model(network="r", threshold=0.3)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    np.testing.assert_array_equal(copy.fit(X, labels).W_, model.fit(X, labels).W_)


def test_of_several_starts_the_most_likely_one_is_kept():
    X, labels = make_data()
    several = make_model(n_init=4, max_iter=4, network="r", random_state=np.random.default_rng(5)).fit(X, labels)
    starts = [np.random.default_rng(5), *np.random.default_rng(5).spawn(3)]
    each = [make_model(max_iter=4, network="r", random_state=rng).fit(X, labels) for rng in starts]
    likelihoods = [np.mean(Twin("r", model.W_, model.R_, 40.0).log_likelihood(X, labels)) for model in each]
    np.testing.assert_allclose(several.init_log_likelihood_, likelihoods, rtol=1e-6)
    assert np.ptp(likelihoods) > 1e-3
    np.testing.assert_array_equal(several.W_, each[int(np.argmax(likelihoods))].W_)
    np.testing.assert_array_equal(several.R_, each[int(np.argmax(likelihoods))].R_)
    assert len(each[0].init_log_likelihood_) == 0, "one start has nothing to be compared with"


def test_the_likelihood_of_a_start_contains_weights_and_uncertain_labels():
    X, labels = make_data()
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(X))
    settings = {"network": "ff", "n_init": 3, "max_iter": 4, "random_state": 5}
    hard = make_model(**settings).fit(X, labels, sample_weight=weights)
    certain = make_model(**settings).fit(X, np.eye(3)[labels] * (labels >= 0)[:, None], sample_weight=weights)
    np.testing.assert_allclose(certain.init_log_likelihood_, hard.init_log_likelihood_, rtol=1e-6)
    np.testing.assert_allclose(certain.W_, hard.W_, rtol=1e-4)
    kept = Twin("ff", hard.W_, hard.R_, 40.0).log_likelihood(X, labels)
    np.testing.assert_allclose(np.average(kept, weights=weights), hard.init_log_likelihood_.max(), rtol=1e-6)


def test_only_several_starts_need_a_generator_that_spawns():
    X, labels = make_data()
    old_fashioned = np.random.Generator(np.random.RandomState(0)._bit_generator)
    assert make_model(network="ff", random_state=old_fashioned, max_iter=1).fit(X, labels).n_iter_ == 1
    with pytest.raises(NesiError, match=r"n_init is 2, but .*default_rng\(seed\)"):
        make_model(random_state=old_fashioned, n_init=2, max_iter=1).fit(X, labels)
    with pytest.raises(NesiError, match="n_init"):
        make_model(n_init=0).partial_fit(X, labels)


# ---- partial_fit ---------------------------------------------------------------------------------------------


def test_partial_fit_of_all_data_is_one_pass_of_fit():
    X, labels = make_data()
    once, online = make_model(max_iter=1).fit(X, labels), make_model().partial_fit(X, labels)
    np.testing.assert_array_equal(online.W_, once.W_)
    np.testing.assert_array_equal(online.R_, once.R_)


def test_partial_fit_learns_from_a_stream():
    X, y = fully_labeled(N=600)
    model = make_model()
    for first in range(0, 600, 60):
        model.partial_fit(X[first : first + 60], y[first : first + 60], classes=[0, 1, 2])
    assert model.score(X, y) > 0.9
    assert model.seen_ == (600, 600)


def test_learning_rates_of_a_stream_fall_as_it_goes_on():
    X, y = fully_labeled()
    model = make_model(network="ff", minibatch_rule="summed", shuffle=False, batch_size=30, dtype="float64")
    model.partial_fit(X[:60], y[:60])
    twin = Twin("ff", model.W_, model.R_, 40.0, rule="summed")
    model.partial_fit(X[60:], y[60:])
    twin.train(X[60:], y[60:], 0.2 * 6 / 90, 0.2 * 3 / 90, batch_size=30)
    np.testing.assert_allclose(model.W_, twin.W, rtol=1e-10)
    np.testing.assert_allclose(model.R_, twin.R, rtol=1e-10)


def test_partial_fit_knows_classes_that_come_later():
    X, y = fully_labeled()
    model = make_model().partial_fit(X[y == 0], y[y == 0], classes=[0, 1, 2])
    model.partial_fit(X[y > 0], y[y > 0])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict_proba(X).shape == (90, 3)


def test_training_that_ends_before_self_labeling_is_pointed_out():
    X, labels = make_data()
    with pytest.warns(ConvergenceWarning, match="self-labeling has hardly set in: more iterations"):
        make_model(max_iter=1, epsilon_r=0.01).fit(X, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make_model(max_iter=1, network="ff").fit(X, labels)
