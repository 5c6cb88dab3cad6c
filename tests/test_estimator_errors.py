"""What a user can fix is said in one sentence that names what was given and what would do."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp
from small_networks import make_data, make_model

from data_tools import DataError, Preprocessing
from data_tools.new_points import load_new
from nesi import NeSiClassifier
from nesi.errors import NesiError

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def trained():
    return make_model(max_iter=2).fit(*make_data())


def spoiled(value, layout):
    X, labels = make_data()
    X[4, 2] = value
    return layout(X), labels


def assert_says(message, *words):
    for word in words:
        assert word in message, message
    assert "\n" not in message
    assert message.endswith(".")


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    ("value", "words"), [(-1.5, ("Negative", "-1.5")), (np.nan, ("NaN",)), (np.inf, ("infinity",))]
)
def test_negative_or_non_finite_data_is_refused(layout, value, words):
    X, labels = spoiled(value, layout)
    with pytest.raises(ValueError, match=words[0]) as caught:
        make_model(signed="no").fit(X, labels)
    assert_says(str(caught.value), *words)
    fitted = make_model().fit(*make_data())
    with pytest.raises(ValueError, match=words[0]):
        fitted.predict(X)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_data_without_any_content_is_refused(layout):
    X, labels = make_data()
    with (
        pytest.warns(UserWarning, match="60 of 60"),
        pytest.raises(NesiError, match="Every point is zero in every input"),
    ):
        make_model().fit(layout(0 * X), labels)


@pytest.mark.parametrize(("A", "expected"), [(-3, "above 0"), (np.nan, "finite")])
def test_a_normalization_is_a_positive_number(A, expected):
    X, labels = make_data()
    with pytest.raises(NesiError, match=f"normalization is {float(A)}, but must be {expected}"):
        make_model(normalization=A).fit(X, labels)


@pytest.mark.parametrize("A", [10, 9.5])
def test_a_normalization_not_above_the_number_of_inputs_is_refused(A):
    X, labels = make_data()
    with pytest.raises(NesiError, match="normalization A is") as caught:
        make_model(normalization=A).fit(X, labels)
    assert_says(str(caught.value), "D = 10")
    suggested = float(re.search(r"try A = ([\d.]+\d)", str(caught.value)).group(1))
    make_model(normalization=suggested, max_iter=1).fit(X, labels)


def test_another_number_of_features_is_refused():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    for use in (model.predict, model.predict_proba, model.transform, model.score_samples, model.partial_fit):
        with pytest.raises(ValueError, match="X has 9 features, but NeSiClassifier is expecting 10"):
            use(X[:, :9])


def test_labels_outside_the_known_classes_are_refused():
    X, labels = make_data()
    model = make_model().partial_fit(X, labels)
    with pytest.raises(NesiError, match=r"A label is .*5.*, but the known classes are 0, 1, 2"):
        model.partial_fit(X, np.where(labels == 2, 5, labels))
    with pytest.raises(NesiError, match="known classes are 0, 1"):
        make_model().partial_fit(X, labels, classes=[0, 1])


@pytest.mark.parametrize(
    ("setting", "value", "known"),
    [
        ("network", "ff++", "'ff', 'r', 'ff+' or 'r+'"),
        ("backend", "theano", "'numba', 'c' or 'jax'"),
        ("minibatch_rule", "mean", "'sequential' or 'summed'"),
        ("inference", "sampled", "exact"),
        ("dtype", "float16", "'float32' or 'float64'"),
    ],
)
def test_an_unknown_choice_is_refused_with_the_known_ones(setting, value, known):
    X, labels = make_data()
    with pytest.raises(NesiError, match=re.escape(f"{setting} is '{value}'")) as caught:
        make_model(**{setting: value}).fit(X, labels)
    assert_says(str(caught.value), "must be one of", known)


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("n_subclasses", 0, "at least 1"),
        ("n_subclasses", 2.5, "an integer"),
        ("max_iter", -1, "at least 0"),
        ("epsilon_w", -0.1, "at least 0"),
        ("epsilon_r", np.nan, "finite"),
        ("threshold", np.inf, "at most 1"),
        ("batch_size", 0, "at least 1"),
        ("n_init", 0, "an integer of at least 1"),
        ("n_init", 1.5, "an integer of at least 1"),
    ],
)
def test_a_number_out_of_range_is_refused(setting, value, expected):
    X, labels = make_data()
    with pytest.raises(NesiError, match=re.escape(f"{setting} is {value!r}, but must be {expected}.")):
        make_model(**{setting: value}).fit(X, labels)


@pytest.mark.parametrize(("setting", "network"), [("epsilon_w", "ff"), ("epsilon_r", "ff"), ("epsilon_r", "r+")])
def test_an_unstable_learning_rate_is_refused_and_the_suggested_one_works(setting, network):
    X, labels = make_data()
    settings = {"network": network, "minibatch_rule": "summed", "batch_size": 20, "max_iter": 5, "dtype": "float64"}
    rates = {"epsilon_w": 0.1, "epsilon_r": 0.1, setting: 5.0}
    with pytest.raises(NesiError, match="unstable") as caught:
        make_model(**settings, **rates).fit(X, labels)
    name = setting[:-1] + setting[-1].upper()
    assert_says(str(caught.value), f"{name} = 5", "batches of 20", "minibatch_rule='sequential'")
    message = str(caught.value)
    rate = float(re.search(rf"use {name} <= ([\d.e-]*\d)", message).group(1))
    size = int(re.search(r"batch_size <= (\d+)", message).group(1))
    remedies = [{setting: rate}, {"batch_size": size}, {"minibatch_rule": "sequential"}]
    for remedy in remedies:
        model = make_model(**(settings | rates | remedy)).fit(X, labels)
        assert (model.W_ > 0).all()
        assert (model.R_ >= 0).all()


def test_an_estimator_that_was_not_fitted_says_so():
    with pytest.raises(ValueError, match="not fitted yet"):
        NeSiClassifier().predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="not fitted yet"):
        NeSiClassifier().sample()


@pytest.mark.parametrize("classes", [5, [], [[0, 1, 2]], "abc"])
def test_classes_that_are_no_list_of_names_are_refused(classes):
    with pytest.raises(NesiError, match="must be a list of all class names"):
        make_model().partial_fit(*make_data(), classes=classes)


def test_classes_of_mixed_kinds_are_refused():
    with pytest.raises(NesiError, match="all numbers, or all words"):
        make_model().partial_fit(*make_data(), classes=[0, "a", 2])


@pytest.mark.parametrize(
    "odd",
    [["ff"], object(), {"a": 1}, b"x", 1j, "abc", -7, 10**400, np.array([1, 2])],
    ids=lambda odd: type(odd).__name__,
)
@pytest.mark.parametrize(
    "setting", ["network", "W_init", "R_init", "normalization", "n_init", "class_prior", "label_noise", "truncated"]
)
def test_values_of_any_other_kind_get_a_sentence(setting, odd):
    with pytest.raises(NesiError) as caught:
        make_model(max_iter=1, **{setting: odd}).fit(*make_data())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "odd", [["ff"], object(), {"a": 1}, b"x", 1j, "abc", -7, np.nan], ids=lambda odd: type(odd).__name__
)
def test_a_random_state_of_any_other_kind_gets_a_sentence(odd):
    with pytest.raises(NesiError, match=r"random_state is .* must be an integer of at least 0"):
        make_model(max_iter=1, random_state=odd).fit(*make_data())


@pytest.mark.parametrize("wrong", [-1, 0, 2.5, "x", True, None])
def test_a_number_of_samples_that_is_none_is_refused(trained, wrong):
    with pytest.raises(NesiError, match=r"n_samples is .* must be an integer of at least 1"):
        trained.sample(wrong)


def test_scores_of_labels_that_do_not_belong_to_the_points_are_refused(trained):
    X, labels = make_data()
    with pytest.raises(NesiError, match="one label for each of the 60 points"):
        trained.score(X, labels[:3])
    with pytest.raises(NesiError, match="no label"):
        trained.score(X, None)
    with pytest.raises(ValueError, match=r"sample_weight.shape == \(2,\)"):
        trained.score(X, labels, sample_weight=[1, 2])


def test_an_odd_value_of_signed_is_one_sentence():
    with pytest.raises(ValueError, match="signed is") as caught:
        NeSiClassifier(signed=np.array(["auto", "no"])).fit(*make_data())
    assert_says(str(caught.value), "auto", "measured")


def test_word_counts_of_impossibly_many_documents_are_refused(tmp_path):
    path = tmp_path / "new.data"
    path.write_text(f"{10**15} 1 1\n")
    texts = Preprocessing(n_inputs=3, vocabulary=("a", "b", "c"))
    with pytest.raises(DataError, match="has a document 1000000000000000, expected 100000000 at most"):
        load_new(path, texts)
