"""Points of any size of values, and points without any: what counts is the direction of a point."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import run_here, write_params
from small_networks import make_data, make_model

from nesi.errors import NesiError
from nesi.observations import Observations
from nesi.storage.records import read_records

pytestmark = pytest.mark.usefixtures("one_thread")
LAYOUTS = [np.asarray, sp.csr_array]
SIZES = [1e300, 1e-46, 1e-310, 2.0**1000]


@pytest.fixture(scope="module")
def trained():
    return make_model(max_iter=5).fit(*make_data())


# ---- any size ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("size", SIZES)
def test_a_point_gets_the_same_answer_at_any_size(trained, layout, size):
    X = np.round(make_data()[0]) + 1.0  # whole numbers: few digits remain of a point of 1e-310
    answer = trained.predict_proba(layout(X))
    np.testing.assert_allclose(trained.predict_proba(layout(X * size)), answer, rtol=1e-5)
    np.testing.assert_allclose(trained.score_samples(layout(X * size)), trained.score_samples(layout(X)), rtol=1e-5)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_training_does_not_depend_on_the_size_of_values(layout, inference):
    X, labels = make_data()
    settings = {"max_iter": 3, "inference": inference}
    expected = make_model(**settings).fit(layout(X), labels)
    X *= 2.0 ** np.where(np.arange(len(X)) % 3 == 0, -1000, 0)[:, None]
    X[4] *= 2.0**900
    given = layout(X)
    before = given.copy()
    model = make_model(**settings).fit(given, labels)
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.log_likelihood_, expected.log_likelihood_)
    assert abs(given - before).max() == 0


@pytest.mark.parametrize("value", [1e300, 1e-46, 1e-310, 5e-324, 1e308])
def test_a_single_entry_of_any_size_is_a_point(trained, value):
    points = np.zeros((2, 10))
    points[0, 3], points[1, 3] = value, 1.0
    answers = trained.predict_proba(points)
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5)
    even = trained.predict_proba(np.full((1, 10), value))  # their sum may be infinite
    np.testing.assert_allclose(even, trained.predict_proba(np.ones((1, 10))), rtol=1e-5)


def test_ordinary_values_are_used_as_they_are():
    X = make_data()[0]
    np.testing.assert_array_equal(Observations(X, 40.0).take(np.arange(60), "float64"), X)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_long_doubles_are_numbers_like_others(trained, layout):
    X = make_data()[0]
    long = layout(X).astype(np.longdouble)
    np.testing.assert_array_equal(trained.predict_proba(long), trained.predict_proba(layout(X)))
    np.testing.assert_array_equal(
        trained.predict_proba(long * np.ldexp(np.longdouble(1), 9000)), trained.predict_proba(long)
    )
    with pytest.raises(NesiError, match="infinity"):
        Observations(np.full((1, 10), np.longdouble("inf")), 40.0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_truth_values_are_zeros_and_ones(trained, layout):
    X = make_data()[0] > 5
    np.testing.assert_array_equal(trained.predict_proba(layout(X)), trained.predict_proba(layout(X.astype(float))))


def test_repeated_entries_of_a_sparse_matrix_are_added_without_changing_it(trained):
    twice = sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([5, 5, 1]), np.array([0, 3])), shape=(1, 10))
    answer = trained.predict_proba(twice)
    assert twice.data.tolist() == [1, 2, 4]
    assert twice.indices.tolist() == [5, 5, 1]
    np.testing.assert_array_equal(answer, trained.predict_proba(sp.csr_array(twice.toarray())))


# ---- no content ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_points_without_content_get_the_prior_and_one_warning(layout):
    X, labels = make_data()
    model = make_model(network="ff", max_iter=3, class_prior=[0.2, 0.5, 0.3]).fit(layout(X), labels)
    some = X[:6].copy()
    some[[1, 4]] = 0
    full = np.array([0, 2, 3, 5])
    with pytest.warns(UserWarning, match="2 of 6; they say nothing about classes and get the prior") as caught:
        posterior = model.predict_proba(layout(some))
    assert len(caught) == 1
    np.testing.assert_allclose(posterior[[1, 4]], [[0.2, 0.5, 0.3]] * 2, rtol=1e-6)
    np.testing.assert_array_equal(posterior[full], model.predict_proba(layout(some[full])))
    with pytest.warns(UserWarning, match="2 of 6"):
        assert model.predict(layout(some))[[1, 4]].tolist() == [1, 1]
    with pytest.warns(UserWarning, match="2 of 6"):
        activities = model.transform(layout(some))
    np.testing.assert_allclose(activities.sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(activities[1], [0.2, 0.5, 0.3] @ model.R_, rtol=1e-5)
    with pytest.warns(UserWarning, match="2 of 6"):
        likelihood = model.score_samples(layout(some))
    np.testing.assert_allclose(likelihood[[1, 4]], model.score_samples(layout(np.ones((1, 10))))[0])
    with pytest.warns(UserWarning, match="3 of 3"):
        np.testing.assert_allclose(model.predict_proba(layout(np.zeros((3, 10)))), [[0.2, 0.5, 0.3]] * 3, rtol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_points_without_content_are_left_out_of_training(layout):
    X, labels = make_data()
    weights = np.where(np.arange(60) % 2, 1.0, 2.0)
    expected = make_model(network="ff", max_iter=3).fit(layout(X), labels, weights)
    some = np.insert(X, [0, 10, 60], 0, axis=0)
    empty = np.flatnonzero(~some.any(axis=1))
    some_labels, some_weights = np.insert(labels, [0, 10, 60], [1, -1, 2]), np.insert(weights, [0, 10, 60], 5)
    with pytest.warns(UserWarning, match="3 of 63; they say nothing about classes and are left out") as caught:
        model = make_model(network="ff", max_iter=3).fit(layout(some), some_labels, some_weights)
    assert len(caught) == 1
    assert len(empty) == 3
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.R_, expected.R_)
    with pytest.warns(UserWarning, match="5 of 5"):  # nothing to learn from: as before
        assert model.partial_fit(layout(np.zeros((5, 10)))) is model
    np.testing.assert_array_equal(model.W_, expected.W_)


def test_an_experiment_goes_on_with_points_that_have_content(tmp_path):
    X, labels = make_data(N=80)
    X[[3, 7, 40, 61]] = 0
    y = np.where(labels < 0, np.arange(80) % 3, labels)
    test_X = X[:12].copy()
    np.savez(tmp_path / "own.npz", X=X, y=y, X_test=test_X, y_test=y[:12])
    settings = {"networks": ["ff+"], "labels": ["all"], "runs": 1, "C": 6, "A": 40, "iterations": 3}
    params = write_params(tmp_path / "p.yaml", dataset=str(tmp_path / "own.npz"), **settings)
    code, _, errors = run_here(params, "--out", tmp_path / "out", "--quiet")
    assert code == 0, errors
    assert "4 of 80; they say nothing about classes and are left out of training" in errors
    assert "2 of 12; they say nothing about classes and get the prior" in errors
    (record,) = read_records(tmp_path / "out")
    assert record["n_train"] == record["labels"] == 76
    assert record["n_test"] == 12
    np.savez(tmp_path / "own.npz", X=0 * X, y=y)
    code, _, errors = run_here(params, "--out", tmp_path / "none", "--quiet")
    assert code == 2
    assert "zero in every input" in errors
