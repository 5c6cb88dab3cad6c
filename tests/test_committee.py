"""Committees: several separated softmax groups that feed one top layer, against networks put together in NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numpy_twin import CommitteeTwin, class_posterior
from scipy.special import gammaln
from sklearn.datasets import load_digits
from small_networks import make_data

from nesi import NeSiClassifier, NesiError
from nesi.engines.exact import ExactEngine
from nesi.engines.second_layer import SecondLayer
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine, TruncatedOptions
from nesi.networks import NETWORKS
from nesi.observations import Observations, SparseRows
from nesi.training.trainer import Trainer, TrainingSettings

G, C, D, K, A = 3, 5, 12, 3, 40.0
THRESHOLD = 0.2
pytestmark = pytest.mark.usefixtures("one_thread")


def make_problem(N=21, seed=4):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, size=(N, D)).astype(np.float64)
    X[:, 0] += 1
    labels = np.where(np.arange(N) % 3 == 0, np.arange(N) % K, -1)
    W = rng.random((G * C, D)) + 1
    R = rng.random((K, G, C)) + 4 * (np.arange(C) % K == np.arange(K)[:, None])[:, None, :]
    return X, labels, W, (R / R.sum(axis=2, keepdims=True)).reshape(K, G * C)


def kind_of(network, backend="numba", dtype="float64", sparse=False, committee=G):
    return NetworkSpec(NETWORKS[network], "sequential", dtype, backend, sparse, committee)


def make_model(**settings):
    defaults = {"n_subclasses": 6, "normalization": 40.0, "max_iter": 10, "random_state": 0, "committee": 3}
    return NeSiClassifier(**(defaults | settings))


# ---- the exact engine --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(
    ("backend", "sparse"), [("numba", False), ("numba", True), ("c", True), ("jax", True)], ids=str
)
def test_the_exact_engine_follows_the_twin(backend, sparse, network):
    if backend == "jax":
        pytest.importorskip("jax")
    X, labels, W, R = make_problem()
    data = Observations(sp.csr_array(X) if sparse else X, A)
    engine = ExactEngine(kind_of(network, backend, sparse=sparse), W, R, A, THRESHOLD)
    twin = CommitteeTwin(network, W, R, A, G, THRESHOLD, "sequential")
    rng = np.random.default_rng(5)
    self_labeled = []
    for batch in np.split(np.arange(len(X)), 3):
        rates_W, rates_R = rng.random((2, len(batch))) * 0.2
        before = twin.log_likelihood(X[batch], labels[batch])
        info = engine.step(data.take(batch, "float64"), labels[batch], rates_W, rates_R)
        self_labeled.append(twin.step(X[batch], labels[batch], rates_W, rates_R))
        np.testing.assert_allclose(engine.W, twin.W, rtol=1e-10)
        np.testing.assert_allclose(engine.R, twin.R, rtol=1e-10)
        np.testing.assert_allclose(info.log_likelihood - data.log_gamma[batch], before, rtol=1e-10)
        assert info.self_labeled == self_labeled[-1]
    assert (sum(self_labeled) > 0) == NETWORKS[network].self_labeling
    inference = engine.infer(data.take(np.arange(len(X)), "float64"), labels)
    _, s, t = twin.activities(X, labels)
    np.testing.assert_allclose(inference.s, s, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(inference.t, t, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("network", ["ff", "r"])
def test_without_self_labels_the_members_are_networks_of_their_own(network):
    X, labels = make_data()
    settings = {"network": network, "dtype": "float64", "shuffle": False}
    start = make_model(**settings, max_iter=0).fit(X, labels)
    committee = make_model(**settings).fit(X, labels)
    singles = [
        make_model(**settings, committee=1, W_init=W, R_init=R).fit(X, labels)
        for W, R in zip(np.split(start.W_, 3), np.split(start.R_, 3, axis=1), strict=True)
    ]
    np.testing.assert_allclose(committee.W_, np.concatenate([single.W_ for single in singles]), rtol=1e-8)
    np.testing.assert_allclose(committee.R_, np.concatenate([single.R_ for single in singles], axis=1), rtol=1e-7)
    answers = [single.predict_proba(X) for single in singles]
    np.testing.assert_allclose(committee.predict_proba(X), np.mean(answers, axis=0), atol=1e-9)
    assert np.abs(answers[0] - answers[1]).max() > 0.01  # they do differ
    likelihoods = [single.log_likelihood_ for single in singles]
    np.testing.assert_allclose(committee.log_likelihood_, np.mean(likelihoods, axis=0), rtol=1e-9)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize("network", NETWORKS)
def test_rows_of_every_member_are_normalised_by_learning(network, inference):
    X, y = load_digits(return_X_y=True)
    X, labels = X[:400], np.where(np.arange(400) < 100, y[:400], -1)
    off = np.random.default_rng(0).random((10, 60)).astype("float32")  # rows that sum to 10 or so per member
    model = make_model(
        network=network, inference=inference, n_subclasses=20, normalization=150.0, epsilon_w=0.5, epsilon_r=0.5,
        max_iter=60, R_init=off,
    ).fit(X, labels)  # fmt: skip
    by_member = model.R_.reshape(10, 3, 20)
    np.testing.assert_allclose(by_member.sum(axis=2), 1, rtol=1e-3)
    used = model.transform(X).sum(axis=0) > 5
    assert (used.reshape(3, 20).sum(axis=1) > 8).all()
    np.testing.assert_allclose(model.W_.sum(axis=1)[used], 150, rtol=1e-3)
    np.testing.assert_allclose(model.transform(X).reshape(400, 3, 20).sum(axis=2), 1, rtol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, rtol=1e-5)


# ---- the truncated engine ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("network", NETWORKS)
def test_with_all_units_as_candidates_truncated_equals_exact(network, sparse):
    X, labels, W, R = make_problem()
    data = Observations(sp.csr_array(X) if sparse else X, A)
    spec = kind_of(network, dtype="float32", sparse=sparse)
    exact = ExactEngine(spec, W, R, A, THRESHOLD)
    rng = np.random.default_rng(1)
    truncated = TruncatedEngine(spec, W, R, A, THRESHOLD, data, labels, rng, TruncatedOptions(active=C))
    rates = np.full(7, 0.1)
    for batch in np.split(np.arange(len(X)), 3) * 3:
        points = data.take(batch, "float32")
        expected = exact.step(points, labels[batch], rates, rates)
        found = truncated.step(points, labels[batch], rates, rates, indices=batch)
        truncated.end_iteration()
        assert found.self_labeled == expected.self_labeled
        np.testing.assert_allclose(found.log_likelihood, expected.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(truncated.W, exact.W, rtol=1e-5)
    np.testing.assert_allclose(truncated.R, exact.R, rtol=1e-5, atol=1e-7)


def test_candidates_are_the_best_of_every_member_and_stay_with_their_member():
    X, labels, W, R = make_problem()
    data = Observations(X, A)
    spec = kind_of("r", dtype="float32")
    few = TruncatedOptions(active=2, neighbours=2, leaders=1, strangers=2)
    engine = TruncatedEngine(spec, W, R, A, THRESHOLD, data, labels, np.random.default_rng(0), few)
    everyone = np.arange(len(X))
    s = ExactEngine(spec, W, R, A, THRESHOLD).infer(data.take(everyone, "float32"), labels).s.reshape(-1, G, C)
    best = np.argsort(-s, axis=2, kind="stable")[:, :, :2] + C * np.arange(G)[:, None]
    np.testing.assert_array_equal(engine.state()["units"].reshape(-1, G, 2), best)
    rates = np.full(len(X), 0.3)
    for _ in range(5):
        engine.step(data.take(everyone, "float32"), labels, rates, rates, indices=everyone)
        engine.end_iteration()
    state = engine.state()
    np.testing.assert_array_equal(state["units"].reshape(-1, G, 2) // C, np.tile(np.arange(G)[:, None], (21, 1, 2)))
    known = state["neighbours"] >= 0
    own = np.broadcast_to((np.arange(G * C) // C)[:, None], known.shape)
    np.testing.assert_array_equal((state["neighbours"] // C)[known], own[known])


# ---- training ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_the_second_layer_alone_learns_what_the_twin_says(backend):
    X, labels, W, R = make_problem()
    layer = SecondLayer(kind_of("ff+", backend), R, THRESHOLD)
    twin = CommitteeTwin("ff+", W, R, A, G, THRESHOLD, "sequential")
    _, s, _ = twin.activities(X, labels)
    rows = sp.block_array(
        [[sp.block_diag(np.split(s[n][None], G, axis=1), format="csr")] for n in range(len(X))], format="csr"
    )
    activities = SparseRows(rows.data, rows.indices.astype(np.int64), rows.indptr.astype(np.int64))
    rates = np.full(len(X), 0.1)
    assert layer.step(activities, labels, rates) == twin.step(X, labels, 0.0, rates) > 0
    np.testing.assert_allclose(layer.R, twin.R, rtol=1e-10)


@pytest.mark.parametrize("inference", ["exact", "truncated"])
@pytest.mark.parametrize("network", ["ff+", "r+"])
def test_an_interrupted_greedy_training_goes_on_bit_for_bit(network, inference):
    X, y = load_digits(return_X_y=True)
    labels = np.where(np.arange(500) < 100, y[:500], -1)
    settings = TrainingSettings(
        network=network, C=20, A=164.0, iterations=3, inference=inference, greedy=True, committee=2
    )

    def new_trainer():
        return Trainer(settings, X[:500], labels, 10, np.random.default_rng(5))

    whole, first_part, second_part = new_trainer(), new_trainer(), new_trainer()
    for _ in whole:
        pass
    for _ in range(4):
        first_part.run_iteration()
    second_part.restore({name: np.array(value) for name, value in first_part.state().items()})
    for _ in second_part:
        pass
    np.testing.assert_array_equal(second_part.W, whole.W)
    np.testing.assert_array_equal(second_part.R, whole.R)


def test_a_committee_of_five_is_not_worse_than_one_network_on_digits():
    """Three draws of 50 labels and of starts; the mean error of both."""
    X, y = load_digits(return_X_y=True)
    errors = {1: [], 5: []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labeled = np.concatenate([rng.choice(np.flatnonzero(y[:1200] == k), 5, replace=False) for k in range(10)])
        labels = np.full(1200, -1)
        labels[labeled] = y[labeled]
        for committee, found in errors.items():
            model = NeSiClassifier(
                100,
                network="ff+",
                committee=committee,
                max_iter=40,
                greedy=True,
                normalization=164.0,
                random_state=seed,
            ).fit(X[:1200], labels)
            found.append(1 - model.score(X[1200:], y[1200:]))
    assert np.mean(errors[5]) <= np.mean(errors[1])
    assert np.mean(errors[5]) < 0.2


# ---- the estimator -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["exact", "truncated"])
def test_the_estimator_has_the_units_of_all_members(inference):
    X, labels = make_data()
    model = make_model(network="r+", inference=inference).fit(sp.csr_array(X), labels)
    assert model.W_.shape == (18, X.shape[1])
    assert model.R_.shape == (3, 18)
    assert model.transform(X).shape == (60, 18)
    assert model.n_subclasses_ == 6
    points, classes = model.sample(500, random_state=0)
    assert points.shape == (500, X.shape[1])
    assert set(classes.tolist()) == {0, 1, 2}
    t = np.mean([class_posterior(s[6 * g : 6 * g + 6], model.R_[:, 6 * g : 6 * g + 6]) for g in range(3)
                 for s in model.transform(X[:1])], axis=0)  # fmt: skip
    np.testing.assert_allclose(model.predict_proba(X[:1])[0], t, rtol=1e-4)
    model.partial_fit(X[:20], labels[:20])
    assert model.W_.shape == (18, X.shape[1])


def test_members_start_differently():
    X, labels = make_data()
    start = make_model(max_iter=0).fit(X, labels)
    assert (start.W_[:6] != start.W_[6:12]).all()
    np.testing.assert_array_equal(start.R_, np.full((3, 18), 1 / 6, "float32"))


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "5"])
def test_an_impossible_committee_is_explained(given):
    X, labels = make_data()
    with pytest.raises(NesiError, match=r"committee is .*, but must be (at least 1|an integer)"):
        make_model(committee=given).fit(X, labels)


def test_weights_of_the_wrong_size_are_explained():
    X, labels = make_data()
    with pytest.raises(NesiError, match=r"W_init has the shape \(6, 10\), but must have \(18, 10\)"):
        make_model(W_init=np.ones((6, 10))).fit(X, labels)


def test_log_likelihood_is_the_mean_of_the_members():
    X, labels, W, R = make_problem()
    data = Observations(X, A)
    found = ExactEngine(kind_of("ff"), W, R, A, THRESHOLD).infer(data.take(np.arange(21), "float64"), labels)
    y = data.dense_rows(np.arange(21), "float64")
    expected = CommitteeTwin("ff", W, R, A, G).log_likelihood(X, labels) + gammaln(y + 1).sum(axis=1)
    np.testing.assert_allclose(found.log_likelihood, expected, rtol=1e-11)
