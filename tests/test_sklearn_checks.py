"""scikit-learn's own test suite for estimators, for every network."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.utils.estimator_checks import _NotAnArray, parametrize_with_checks

from nesi import NeSiClassifier

_OTHER_ORDER = "repeated points come in another random order, and the network learns point by point"
EXPECTED_FAILURES = {
    "check_classifiers_classes": "-1 means unlabeled here, so it can't be the name of a class",
    "check_supervised_y_no_nan": "NaN means unlabeled here, as it does in tables; infinity is refused",
    "check_sample_weight_equivalence_on_dense_data": _OTHER_ORDER,
    "check_sample_weight_equivalence_on_sparse_data": _OTHER_ORDER,
}
NETWORKS = ["ff", "r", "ff+", "r+"]
pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore:Points that are zero in every input"),  # the data of the checks has some
    pytest.mark.filterwarnings("ignore:The data has negative values"),  # which the checks have, and which are split
]


@parametrize_with_checks(
    [NeSiClassifier(network=network, max_iter=10) for network in NETWORKS],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_finds_nothing_wrong(estimator, check):
    check(estimator)


# More of the same than the checks look at.


def as_pandas(values):
    return pd.DataFrame(values) if values.ndim == 2 else pd.Series(values)


def data_of_the_checks():
    """As check_estimator_sparse_container makes it."""
    rng = np.random.RandomState(0)
    X = rng.uniform(size=(40, 3))
    X[X < 0.6] = 0
    return X, (4 * rng.uniform(size=40)).astype(int)


@pytest.mark.parametrize("container", [sp.csr_matrix, sp.csr_array, sp.csc_matrix, sp.coo_array, sp.lil_array])
@pytest.mark.parametrize("network", NETWORKS)
def test_sparse_containers_work(network, container):
    X, y = data_of_the_checks()
    model = NeSiClassifier(network=network, max_iter=2, random_state=0).fit(container(X), y)
    dense = NeSiClassifier(network=network, max_iter=2, random_state=0).fit(X, y)
    assert model.predict(container(X)).shape == (40,)
    np.testing.assert_allclose(model.predict_proba(container(X)), dense.predict_proba(X), atol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8"])
@pytest.mark.parametrize("network", NETWORKS)
def test_data_of_any_real_type_works(network, dtype):
    X, y = data_of_the_checks()
    X = (10 * X).round().astype(dtype)
    model = NeSiClassifier(network=network, max_iter=2, random_state=0).fit(X, y)
    same = NeSiClassifier(network=network, max_iter=2, random_state=0).fit(X.astype("float64"), y)
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X.astype("float64")), atol=1e-5)


@pytest.mark.parametrize("hold", [_NotAnArray, as_pandas])
@pytest.mark.parametrize("network", NETWORKS)
def test_weights_that_are_not_an_array_work(network, hold):
    """As check_sample_weights_not_an_array and check_sample_weights_pandas_series have them."""
    X, y = data_of_the_checks()
    weights = np.ones(40)
    weights[:5] = 2
    models = [NeSiClassifier(network=network, max_iter=2, random_state=0) for _ in range(2)]
    models[0].fit(hold(X), hold(y), sample_weight=hold(weights))
    models[1].fit(X, y, sample_weight=weights)
    np.testing.assert_array_equal(models[0].W_, models[1].W_)


def test_negative_one_as_a_class_is_taken_for_unlabeled():
    X, y = data_of_the_checks()
    model = NeSiClassifier(max_iter=1).fit(X, np.where(y > 1, 1, -1))
    np.testing.assert_array_equal(model.classes_, [1])
