"""Labels as people have them: whatever marks a missing one, and whatever holds them."""

from __future__ import annotations

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score
from small_networks import make_data, make_model

from nesi import NeSiClassifier, NesiError
from nesi.estimator.inputs import split_labels
from nesi.model_selection import LabeledKFold

pytestmark = pytest.mark.usefixtures("one_thread")

WORDS = ["ape", "bee", "cat"]


def objects(values):
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


MISSING = {
    "-1": -1,
    "None": None,
    "NaN": float("nan"),
    "NumPy's NaN": np.float32("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "NumPy's NaT": np.datetime64("NaT"),
    "Decimal": Decimal("NaN"),
    "empty": "",
    "blank": "  ",
}


@pytest.mark.parametrize("hold", [list, tuple, objects, lambda values: pd.Series(values, dtype=object)])
@pytest.mark.parametrize("missing", MISSING.values(), ids=MISSING.keys())
@pytest.mark.parametrize("names", [WORDS, [5, 7, 9]], ids=["words", "integers"])
def test_every_mark_of_a_missing_label_means_unlabeled(names, missing, hold):
    known, labeled = split_labels(hold([names[2], missing, names[0], missing, names[1]]), 5)
    assert known.tolist() == [names[2], names[0], names[1]]
    assert labeled.tolist() == [True, False, True, False, True]
    assert known.dtype == np.array(names, dtype=object if names == WORDS else None).dtype


CONTAINERS = {
    "categorical words": (pd.Series(["bee", None, "ape"], dtype="category"), ["bee", "ape"], object),
    "categorical integers": (pd.Series([4, None, 2], dtype="category"), [4, 2], np.int64),
    "a bare categorical": (pd.Categorical(["bee", None, "ape"]), ["bee", "ape"], object),
    "nullable integers": (pd.Series([4, None, 2], dtype="Int64"), [4, 2], np.int64),
    "nullable truth values": (pd.Series([True, None, False], dtype="boolean"), [True, False], np.bool_),
    "text of pandas": (pd.Series(["bee", None, "ape"], dtype="string"), ["bee", "ape"], object),
    "what pandas makes of words": (pd.Series(["bee", None, "ape"]), ["bee", "ape"], object),
    "what pandas makes of integers": (pd.Series([4, None, 2]), [4, 2], np.int64),
    "floats of a list": ([4.0, None, 2.0], [4, 2], np.int64),
    "float array": (np.array([4, np.nan, 2]), [4, 2], np.int64),
    "float array without NaN": (np.array([4.0, -1.0, 2.0]), [4.0, 2.0], np.float64),
    "text array": (np.array(["bee", "", "ape"]), ["bee", "ape"], np.dtype("U3")),
    "unsigned": (pd.Series([4, 0, 2], dtype="uint8"), [4, 0, 2], np.uint8),
    "an index": (pd.Index(["bee", None, "ape"]), ["bee", "ape"], object),
    "a series with another index": (pd.Series([4, -1, 2], index=[9, 9, 3]), [4, 2], np.int64),
}


@pytest.mark.parametrize(("y", "expected", "dtype"), CONTAINERS.values(), ids=CONTAINERS.keys())
def test_labels_keep_their_names_and_type_in_every_container(y, expected, dtype):
    known, labeled = split_labels(y, 3)
    assert known.tolist() == expected
    assert known.dtype == dtype
    assert labeled.sum() == len(expected)


@pytest.mark.parametrize("marked", ["None", "NaN", "NA", "empty"])
def test_a_network_learns_the_same_however_labels_are_written(marked):
    X, labels = make_data()
    expected = make_model(max_iter=3).fit(X, labels)
    y = pd.Series([MISSING[marked] if label < 0 else WORDS[label] for label in labels])
    model = make_model(max_iter=3).fit(pd.DataFrame(X).set_axis([f"f{i}" for i in range(10)], axis=1), y)
    np.testing.assert_array_equal(model.classes_, WORDS)
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.R_, expected.R_)


@pytest.mark.parametrize(
    ("y", "words"),
    [
        (["ape", 3, None], ("mixes types", "'ape' is text", "3 is a number")),
        ([True, 3, None], ("mixes types", "True is a truth value")),
        ([("a", "b"), None, None], ("lengths",)),
        (pd.cut(pd.Series([1.0, 2.0, 3.0]), 2), ("Interval", "text or by a number")),
        (pd.to_datetime(pd.Series(["2020-01-01", None, "2021-01-01"])), ("text or by a number",)),
        ([[0, 1], [1]], ("lengths",)),
        (np.array([0, np.inf, 1]), ("infinite",)),
        ([0.0, None, float("-inf")], ("infinite",)),
        (np.array([b"ape", b"bee", b""]), ("b'ape'", "decode()")),
        ([b"ape", None, b"bee"], ("b'ape'", "of type bytes")),
    ],
)
def test_labels_that_cannot_be_class_names_get_one_sentence(y, words):
    X = np.ones((3, 4))
    with pytest.raises(NesiError) as caught:
        NeSiClassifier().fit(X, y)
    for word in words:
        assert word in str(caught.value)


def test_text_that_numpy_made_of_a_missing_label_is_pointed_out():
    with pytest.warns(UserWarning, match="holds the class 'nan'"):
        split_labels(np.array(["ape", np.nan, "bee"]), 3)


def test_rows_of_missing_values_are_unlabeled_among_soft_labels():
    X, labels = make_data()
    soft = np.eye(3)[labels] * (labels >= 0)[:, None]
    with_gaps = pd.DataFrame(np.where((labels >= 0)[:, None], soft, np.nan)).astype("Float64")
    expected, model = make_model(max_iter=2).fit(X, soft), make_model(max_iter=2).fit(X, with_gaps)
    np.testing.assert_array_equal(model.W_, expected.W_)
    np.testing.assert_array_equal(model.R_, expected.R_)


def test_a_stream_takes_the_same_labels():
    X, labels = make_data()
    y = pd.Series([None if label < 0 else WORDS[label] for label in labels], dtype="category")
    model = make_model().partial_fit(X, y, classes=y.cat.categories)
    model.partial_fit(X, pd.Series(y, dtype="string"))
    assert list(model.classes_) == WORDS
    with pytest.raises(NesiError, match="A label is 'dog', but the known classes are ape, bee, cat"):
        model.partial_fit(X[:1], ["dog"])


# ---- validation -----------------------------------------------------------------------------------------------------


def partly_labeled(kind):
    X, labels = make_data(N=90)
    if kind == "numbers":
        return X, labels
    words = [None if label < 0 else WORDS[label] for label in labels]
    return X, words if kind == "a list" else pd.Series(words, index=np.arange(90)[::-1], dtype="category")


@pytest.mark.parametrize("kind", ["numbers", "a list", "a series"])
def test_folds_hold_labeled_points_and_everything_else_is_trained_on(kind):
    X, y = partly_labeled(kind)
    labeled = np.flatnonzero(split_labels(y, 90)[1])
    folds = list(LabeledKFold(4, n_repeats=2, random_state=0).split(X, y))
    assert len(folds) == LabeledKFold(4, n_repeats=2).get_n_splits() == 8
    for train, validation in folds:
        assert set(validation) <= set(labeled)
        assert sorted([*train, *validation]) == list(range(90))
    for repeat in (folds[:4], folds[4:]):
        assert sorted(np.concatenate([validation for _, validation in repeat])) == list(labeled)
    assert any(not np.array_equal(a[1], b[1]) for a, b in zip(folds[:4], folds[4:], strict=True))
    again = list(LabeledKFold(4, n_repeats=2, random_state=0).split(X, y))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))


def test_folds_have_the_same_share_of_every_class():
    y = np.repeat([0, 1, 2, -1], [20, 10, 5, 40])
    for _, validation in LabeledKFold(5, random_state=1).split(np.zeros(75), y):
        assert np.bincount(y[validation]).tolist() == [4, 2, 1]


def test_a_class_with_one_label_is_always_trained_on():
    y = np.array([0, 0, 0, 1, 1, 1, 7, -1, -1])
    for train, _ in LabeledKFold(3, random_state=0).split(np.zeros(9), y):
        assert {6, 7, 8} <= set(train)


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"n_splits": 1}, [0, 1], "n_splits is 1, but must be an integer of at least 2"),
        ({"n_repeats": 0}, [0, 1], "n_repeats is 0"),
        ({"n_splits": 4}, [0, 0, 1, 1], "no class has more than 2 labels: use n_splits=2"),
        ({"n_splits": 2}, [0, 1, None], "no class has more than 1 labels: use more labels"),
        ({}, [None, -1], "more than 0 labels"),
        ({}, None, "y is missing"),
    ],
)
def test_folds_that_cannot_be_made_get_one_sentence(settings, y, message):
    with pytest.raises(NesiError, match=message):
        list(LabeledKFold(**settings).split(np.zeros(4), y))


@pytest.mark.parametrize("kind", ["numbers", "a list", "a series"])
def test_partly_unlabeled_data_can_be_cross_validated_and_searched(kind):
    X, y = partly_labeled(kind)
    cv = LabeledKFold(3, random_state=0)
    scores = cross_val_score(make_model(max_iter=10), X, y, cv=cv)
    assert len(scores) == 3
    assert scores.mean() > 0.8
    search = GridSearchCV(make_model(max_iter=10), {"epsilon_w": [1e-6, 0.3]}, cv=cv, error_score="raise").fit(X, y)
    assert search.best_score_ > 0.8
    assert len(search.best_estimator_.predict(X)) == 90


def test_the_score_counts_labeled_points_only():
    X, labels = make_data()
    model = make_model().fit(X, labels)
    right = model.predict(X)[labels >= 0] == labels[labels >= 0]
    y = [None if label < 0 else int(label) for label in labels]
    assert model.score(X, y) == pytest.approx(right.mean())
    weights = np.arange(60.0) + 1
    assert model.score(X, y, sample_weight=weights) == pytest.approx(np.average(right, weights=weights[labels >= 0]))
    with pytest.raises(NesiError, match="no label"):
        model.score(X, [None] * 60)


def test_activities_come_as_a_frame_with_a_name_for_every_unit():
    X, labels = make_data()
    model = make_model(max_iter=2).fit(X, labels)
    plain = model.transform(X)
    names = [f"nesiclassifier{number}" for number in range(6)]
    assert model.get_feature_names_out().tolist() == names
    frame = model.set_output(transform="pandas").transform(pd.DataFrame(X, index=np.arange(60) + 5))
    assert frame.columns.tolist() == names
    assert frame.index.tolist() == list(range(5, 65))
    np.testing.assert_array_equal(frame.to_numpy(), plain)


def test_ordinary_labels_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split_labels(np.array(["ape", "bee"]), 2)
