"""Class priors, noisy and soft labels: every posterior against the sum over all classes and units of a tiny model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import gammaln
from sklearn.datasets import load_digits
from small_networks import make_data

from nesi import NeSiClassifier, NesiError
from nesi.engines.exact import ExactEngine
from nesi.engines.second_layer import SecondLayer
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine, TruncatedOptions
from nesi.label_model import label_model, soft_label_model
from nesi.networks import NETWORKS
from nesi.observations import Observations, SparseRows
from nesi.training.trainer import Trainer, TrainingSettings

K, C, D, A, N = 3, 4, 5, 20.0, 12
PRIOR = np.array([0.5, 0.3, 0.2])
NOISE = np.array([[0.7, 0.2, 0.1], [0.0, 0.9, 0.1], [0.3, 0.3, 0.4]])  # p(label | class)
THRESHOLD = 0.3
pytestmark = pytest.mark.usefixtures("one_thread")


def tiny_problem(G=1):
    """Weights whose rows sum to A and 1, as the generative model has them; some points labeled."""
    rng = np.random.default_rng(8)
    X = rng.integers(0, 5, size=(N, D)).astype(np.float64)
    X[:, 0] += 1
    W = rng.random((G * C, D)) + 0.5
    R = rng.random((K, G, C)) ** 2
    R[0, :, 1] = 0  # a unit that a class rules out
    labels = np.where(np.arange(N) % 4 < 3, np.arange(N) % K, -1)
    return X, labels, A * W / W.sum(axis=1, keepdims=True), (R / R.sum(axis=2, keepdims=True)).reshape(K, G * C)


def soft_rows(labels):
    rng = np.random.default_rng(9)
    rows = rng.dirichlet(np.ones(K), size=len(labels))
    rows[1] = [1, 0, 0]
    rows[labels < 0] = 0
    return rows


def enumerated(X, W, R, prior, label_given_class):
    """p(k, c | y, label) and log p(y, label) of every point, by going through all k and c.

    `label_given_class[n, k]` is p(label of n | k), all 1 for points without a label.
    """
    posterior, likelihood = np.zeros((len(X), K, len(W))), np.zeros(len(X))
    for n in range(len(X)):
        y = (A - D) * X[n] / X[n].sum() + 1
        for k in range(K):
            for c in range(len(W)):
                poisson = np.exp((y * np.log(W[c]) - W[c] - gammaln(y + 1)).sum())
                posterior[n, k, c] = prior[k] * label_given_class[n, k] * R[k, c] * poisson
        likelihood[n] = np.log(posterior[n].sum())
        posterior[n] /= posterior[n].sum()
    return posterior, likelihood


def noisy_case(prior):
    X, labels, W, R = tiny_problem()
    likelihoods = np.where(labels[:, None] >= 0, NOISE.T[labels], 1)
    return X, labels, W, R, label_model(K, prior, NOISE), likelihoods


def prior_case(prior):
    X, labels, W, R = tiny_problem()
    likelihoods = np.where(labels[:, None] >= 0, np.eye(K)[labels], 1)
    return X, labels, W, R, label_model(K, prior), likelihoods


def soft_case(prior):
    """A row u is p(k | label), which is p(k) p(label | k) / p(label): with p(label) = sum_k u_k p(k) as documented."""
    X, labels, W, R = tiny_problem()
    rows = soft_rows(labels)
    numbers, model = soft_label_model(rows, prior)
    likelihoods = np.where(labels[:, None] >= 0, rows / prior * (rows @ prior)[:, None], 1)
    return X, numbers, W, R, model, likelihoods


CASES = {"prior": prior_case, "noise": noisy_case, "soft": soft_case}
UNIFORM = np.full(K, 1 / K)


def make_kind(network, model, backend="numba", rule="summed", dtype="float64", sparse=False, committee=1):
    return NetworkSpec(NETWORKS[network], rule, dtype, backend, sparse, committee, model)


@pytest.mark.parametrize("prior", [UNIFORM, PRIOR], ids=["uniform", "prior"])
@pytest.mark.parametrize("case", CASES)
def test_posteriors_and_likelihood_are_those_of_the_enumeration(case, prior, backend):
    X, labels, W, R, model, likelihoods = CASES[case](prior)
    posterior, log_likelihood = enumerated(X, W, R, prior, likelihoods)
    data = Observations(X, A)
    engine = ExactEngine(make_kind("r", model, backend), W, R, A, THRESHOLD)
    found = engine.infer(data.take(np.arange(N), "float64"), labels)
    np.testing.assert_allclose(found.s, posterior.sum(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.t, posterior.sum(axis=2), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.log_likelihood - data.log_gamma, log_likelihood, rtol=1e-10)


@pytest.mark.parametrize("case", ["noise", "soft"])
def test_R_learns_from_the_enumerated_posterior(case, backend):
    """Delta R_kc = eps sum_n (p(k, c | y_n, label_n) - p(k | y_n, label_n) R_kc) over the labeled points."""
    X, labels, W, R, model, likelihoods = CASES[case](PRIOR)
    posterior, _ = enumerated(X, W, R, PRIOR, likelihoods)
    q = posterior[labels >= 0]
    expected = R + 0.05 * (q.sum(axis=0) - q.sum(axis=(0, 2))[:, None] * R)
    rates = np.full(N, 0.05)
    engine = ExactEngine(make_kind("r", model, backend), W, R, A, THRESHOLD)
    data = Observations(X, A)
    engine.step(data.take(np.arange(N), "float64"), labels, rates, rates, learn="R")
    np.testing.assert_allclose(engine.R, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(engine.R.sum(axis=1), 1, rtol=1e-12)


@pytest.mark.parametrize("case", ["noise", "soft"])
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_the_second_layer_alone_learns_the_same(case, backend):
    X, labels, W, R, model, _ = CASES[case](PRIOR)
    data = Observations(X, A)
    rates = np.full(N, 0.05)
    whole = ExactEngine(make_kind("ff+", model), W, R, A, THRESHOLD)
    points = data.take(np.arange(N), "float64")
    s = sp.csr_array(whole.infer(points, labels).s)
    layer = SecondLayer(make_kind("ff+", model, backend), R, THRESHOLD)
    count = layer.step(SparseRows(s.data, s.indices.astype(np.int64), s.indptr.astype(np.int64)), labels, rates)
    assert count == whole.step(points, labels, rates, rates, learn="R").self_labeled
    np.testing.assert_allclose(layer.R, whole.R, rtol=1e-10)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("network", NETWORKS)
def test_truncated_committees_learn_the_same_from_soft_labels_with_all_units_as_candidates(network, sparse):
    X, labels, W, R = tiny_problem(G=2)
    numbers, model = soft_label_model(soft_rows(labels), PRIOR)
    data = Observations(sp.csr_array(X) if sparse else X, A)
    spec = make_kind(network, model, rule="sequential", dtype="float32", sparse=sparse, committee=2)
    exact = ExactEngine(spec, W, R, A, THRESHOLD)
    rng = np.random.default_rng(1)
    truncated = TruncatedEngine(spec, W, R, A, THRESHOLD, data, numbers, rng, TruncatedOptions(active=C))
    rates = np.full(6, 0.1)
    for batch in [np.arange(6), np.arange(6, 12)] * 3:
        points = data.take(batch, "float32")
        expected = exact.step(points, numbers[batch], rates, rates)
        found = truncated.step(points, numbers[batch], rates, rates, indices=batch)
        assert found.self_labeled == expected.self_labeled
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(truncated.R, exact.R, rtol=2e-5, atol=1e-6)
    np.testing.assert_allclose(truncated.W, exact.W, rtol=1e-5)
    np.testing.assert_allclose(exact.R.reshape(K, 2, C).sum(axis=2), 1, rtol=1e-5)


@pytest.mark.parametrize("network", NETWORKS)
def test_soft_labels_that_are_certain_are_labels(network):
    X, labels = make_data()
    rows = np.where(labels[:, None] >= 0, np.eye(3)[labels], 0)
    settings = {"n_subclasses": 6, "normalization": 40.0, "network": network, "max_iter": 8, "random_state": 0}
    settings |= {"dtype": "float64", "threshold": 0.2}
    hard = NeSiClassifier(**settings).fit(X, labels)
    for model in (
        NeSiClassifier(**settings).fit(X, rows),
        NeSiClassifier(**settings).fit(X, np.where(labels[:, None] >= 0, rows, -1)),
        NeSiClassifier(**settings, label_noise=0.0).fit(X, labels),
        NeSiClassifier(**settings, class_prior=[1 / 3] * 3).fit(X, labels),
    ):
        np.testing.assert_allclose(model.W_, hard.W_, rtol=1e-8)
        np.testing.assert_allclose(model.R_, hard.R_, rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(model.log_likelihood_, hard.log_likelihood_, rtol=1e-9)
        np.testing.assert_array_equal(model.self_labeled_, hard.self_labeled_)
        np.testing.assert_allclose(model.predict_proba(X), hard.predict_proba(X), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
def test_many_different_soft_labels_need_only_the_rows_of_a_batch(inference):
    rng = np.random.default_rng(3)
    X, labels = rng.random((1300, 8)) + 0.1, rng.dirichlet(np.ones(3), size=1300)
    settings = TrainingSettings(network="r", C=9, A=40.0, iterations=2, inference=inference, greedy=True)
    trainer = Trainer(settings, X, labels, 3, np.random.default_rng(0))
    for _ in trainer:
        pass
    np.testing.assert_allclose(trainer.R.sum(axis=1), 1, rtol=1e-4)
    assert np.isfinite(trainer.trained().log_likelihood(X, np.zeros(1300, dtype=np.int64))).all()


@pytest.mark.parametrize("network", ["ff", "r+"])
def test_quick_prediction_knows_the_prior(network):
    X, labels = make_data()
    settings = {"network": network, "max_iter": 10, "random_state": 0, "class_prior": PRIOR, "normalization": 40.0}
    exact = NeSiClassifier(6, **settings).fit(X, labels)
    quick = NeSiClassifier(6, **settings, predict_inference="truncated").fit(X, labels)  # looks at all 6 units
    np.testing.assert_allclose(quick.predict_proba(X), exact.predict_proba(X), atol=1e-5)
    uniform = NeSiClassifier(6, **(settings | {"class_prior": None})).fit(X, labels)
    assert np.abs(uniform.predict_proba(X) - exact.predict_proba(X)).max() > 0.01


# ---- what they are good for ----------------------------------------------------------------------------------


def test_a_network_that_knows_about_wrong_labels_makes_fewer_errors_and_more_honest_ones():
    """A third of the labels of digits is wrong: R no longer believes them."""
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    wrong = rng.random(1200) < 0.33
    labels = np.where(wrong, (y[:1200] + rng.integers(1, 10, 1200)) % 10, y[:1200])
    errors, surprise = [], []
    for noise in (None, 0.33):
        model = NeSiClassifier(150, network="r", label_noise=noise, max_iter=40, random_state=0)
        p = model.fit(X[:1200], labels).predict_proba(X[1200:])
        errors.append(np.mean(p.argmax(axis=1) != y[1200:]))
        surprise.append(-np.log(np.maximum(p[np.arange(len(p)), y[1200:]], 1e-6)).mean())
    assert errors[1] <= errors[0]
    assert surprise[1] < 0.85 * surprise[0]


def test_a_class_prior_helps_where_classes_are_not_equally_frequent():
    """Of overlapping classes one is nine times as frequent as the other."""
    rng = np.random.default_rng(1)
    fields = np.array([[6.0, 5, 5, 4], [4.0, 5, 5, 6]])
    y = (rng.random(1000) < 0.1).astype(int)
    X = rng.poisson(fields[y]) + 0.1
    scores = [
        NeSiClassifier(2, network="r", class_prior=prior, max_iter=30, random_state=0, normalization=24.0)
        .fit(X[:500], y[:500])
        .score(X[500:], y[500:])
        for prior in (None, [0.9, 0.1])
    ]
    assert scores[1] > scores[0] + 0.05


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "y", "message"),
    [
        ({"class_prior": [0.5, 0.5]}, None, "class_prior has the shape (2,), but must hold one number for each"),
        ({"class_prior": [0.5, 0.6, 0.1]}, None, "but must be positive numbers that sum to 1"),
        ({"class_prior": [1, 0, 0]}, None, "but must be positive numbers that sum to 1"),
        ({"label_noise": 1.0}, None, "label_noise is 1, but the share of wrong labels must be"),
        ({"label_noise": [[1, 0], [0, 1]]}, None, "label_noise has the shape (2, 2), but must be"),
        ({"label_noise": np.ones((3, 3))}, None, "each row with the sum 1"),
        ({}, np.ones((60, 3)), "Row 0 of the soft labels is not a distribution over classes"),
        ({}, np.full((60, 3), [np.nan, 0.5, 0.5]), "Row 0 of the soft labels is not a distribution over classes"),
        ({}, np.full((5, 3), 1 / 3), "y has 5 rows"),
        ({}, np.array([["a", "b"]] * 60), "must hold numbers: the probability of each class"),
        ({"label_noise": 0.1}, np.full((60, 3), 1 / 3), "leave label_noise out"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_explained(settings, y, message):
    X, labels = make_data()
    with pytest.raises(NesiError) as error:
        NeSiClassifier(6, max_iter=1, **settings).fit(X, labels if y is None else y)
    assert message in str(error.value)
