"""The truncated engine: equal to the exact one when it looks at everything, never worse than before otherwise."""

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse as sp
from pytensor import In
from sklearn.datasets import load_digits

from nesi import NeSiClassifier, NesiError
from nesi.engines import truncated_search, truncated_update
from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine, TruncatedOptions
from nesi.networks import NETWORKS
from nesi.observations import Observations
from nesi.training.trainer import Trainer, TrainingSettings

A = 50.0


def small_problem(sparse, n_points=40, C=7, D=12, K=3):
    rng = np.random.default_rng(0)
    X = rng.random((n_points, D)) * (rng.random((n_points, D)) > 0.3)
    X[:, 0] += 0.1
    R = rng.random((K, C))
    data = Observations(sp.csr_array(X) if sparse else X, A)
    return data, rng.integers(-1, K, n_points), rng.random((C, D)) * 3 + 1, R / R.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("network", NETWORKS)
def test_with_all_units_as_candidates_it_equals_the_exact_engine(network, sparse):
    data, labels, W, R = small_problem(sparse)
    spec = NetworkSpec(NETWORKS[network], "sequential", "float32", "numba", sparse)
    exact = ExactEngine(spec, W, R, A, threshold=0.1)
    everything = TruncatedOptions(active=len(W))
    truncated = TruncatedEngine(spec, W, R, A, 0.1, data, labels, np.random.default_rng(1), everything)
    rates = np.full(10, 0.1)
    for first in [0, 10, 20, 30] * 3:
        batch = np.arange(first, first + 10)
        points = data.take(batch, "float32")
        exact_info = exact.step(points, labels[batch], rates, rates, indices=batch)
        truncated_info = truncated.step(points, labels[batch], rates, rates, indices=batch)
        truncated.end_iteration()
        assert truncated_info.self_labeled == exact_info.self_labeled
        np.testing.assert_allclose(truncated_info.log_likelihood, exact_info.log_likelihood, rtol=1e-5)
    np.testing.assert_allclose(truncated.W, exact.W, rtol=1e-5)
    np.testing.assert_allclose(truncated.R, exact.R, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("network", ["ff", "r"])
def test_truncated_free_energy_never_falls_in_em(network):
    """E-step: candidates only get better; M-step: eqs. (MstepW) and (MstepR) for the truncated posteriors."""
    X, y = load_digits(return_X_y=True)
    X, labels = X[:300] + 0.01, np.where(np.arange(300) % 3 == 0, y[:300], -1)
    data, C, K = Observations(X, 164.0), 40, 10
    rng = np.random.default_rng(2)
    points = data.dense_rows(np.arange(300), "float64")
    W = 0.5 * (points[:C] + points.mean(axis=0))
    W *= 164 / W.sum(axis=1, keepdims=True)
    spec = NetworkSpec(NETWORKS[network], "sequential", "float64", "numba", sparse=False)
    few = TruncatedOptions(active=4, neighbours=3, leaders=2, strangers=1)
    engine = TruncatedEngine(spec, W, np.full((K, C), 1 / C), 164.0, 0.6, data, labels, rng, few)
    everyone = np.arange(300)
    free_energies = []
    for _ in range(25):
        found = engine.candidates(everyone)
        engine.end_iteration()
        free_energies.append(found.bound.sum())
        s = np.zeros((300, C))
        np.put_along_axis(s, found.units.astype(np.int64), found.s, axis=1)
        W = engine.W.copy()
        used = s.sum(axis=0) > 1e-12
        W[used] = s.T[used] @ points
        W[used] *= 164 / W[used].sum(axis=1, keepdims=True)
        R = engine.R
        if network == "r":  # the feedforward network's posterior knows no R
            joint = s[:, None, :] * np.where(
                labels[:, None, None] >= 0,
                (labels[:, None] == np.arange(K))[:, :, None],
                (R / np.maximum(R.sum(axis=0), 1e-300))[None],
            )
            R = joint.sum(axis=0) / joint.sum(axis=(0, 2))[:, None]
        engine.set_weights(W, R)
    assert free_energies[-1] > free_energies[0] + 100
    assert np.min(np.diff(free_energies)) > -1e-9 * abs(free_energies[0])


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "csr"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_compiled_kernels_do_what_plain_python_does(recurrent, sparse):
    data, labels, W, R = small_problem(sparse, C=30)
    rng = np.random.default_rng(3)
    W = W.astype("float32")
    log_W = np.log(W)
    points = data.take(np.arange(40), "float32")
    seen = tuple(points) if sparse else (data.dense_rows(np.arange(40), "float32"),)
    log_prior = np.log(np.vstack([R, R.mean(axis=0)]))
    feedback = log_prior if recurrent else np.zeros_like(log_prior)
    units = np.array([rng.permutation(30)[:5] for _ in range(40)], dtype=np.int32)
    neighbours = rng.integers(30, size=(30, 4)).astype(np.int32)
    strangers = rng.integers(30, size=(40, 2)).astype(np.int32)
    sums = [log_W.sum(axis=1, dtype="float64"), W.sum(axis=1, dtype="float64")]
    inputs = (log_W, *sums, feedback, log_prior, labels, units, neighbours, strangers, *seen)
    op = truncated_search.Search(sparse, leaders=2)
    expected = run_perform(op, inputs, 3)
    found = run_compiled(op, inputs)
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], rtol=2e-5, atol=1e-7)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-6)
    rates, reference = np.full(40, 0.02, dtype="float32"), rng.random(12).astype("float32")
    for rule in ("sequential", "summed"):
        op = truncated_update.UpdateActiveRows(rule, sparse)
        relative = log_W - reference
        states = [[W.copy(), relative.copy(), sums[1].copy(), relative.sum(axis=1, dtype="float64")] for _ in range(2)]
        expected_state = run_perform(op, (*states[0], reference, rates, *expected[:2], *seen), 4)
        found_state = run_compiled(op, (*states[1], reference, rates, *expected[:2], *seen))
        for compiled, plain in zip(found_state, expected_state, strict=True):
            np.testing.assert_allclose(compiled, plain, rtol=2e-6, atol=1e-6)


def test_neighbours_are_those_who_share_most_points():
    units = np.array([[0, 1, 2], [0, 1, 3], [0, 4, 1], [5, 6, 7]], dtype=np.int32)
    before = np.full((8, 2), -1, dtype=np.int32)
    expected = run_perform(truncated_search.Neighbours(), (before.copy(), units), 1)[0]
    (found,) = run_compiled(truncated_search.Neighbours(), (before.copy(), units))
    np.testing.assert_array_equal(found, expected)
    assert found[0].tolist() == [1, 4]
    assert found[5].tolist() == [6, 7]
    assert (found[1] == -1).all()  # wins no point


def test_first_candidates_are_the_best_of_all_units():
    data, labels, W, R = small_problem(sparse=False, C=30)
    spec = NetworkSpec(NETWORKS["r"], "sequential", "float32", "numba", sparse=False)
    settings = TruncatedOptions(active=4, strangers=0)
    engine = TruncatedEngine(spec, W, R, A, 0.6, data, labels, np.random.default_rng(0), settings)
    units = engine.state()["units"]
    s = ExactEngine(spec, W, R, A, 0.6).infer(data.take(np.arange(40), "float32"), labels).s
    np.testing.assert_array_equal(units, np.argsort(-s, axis=1, kind="stable")[:, :4])


def test_search_finds_the_best_units_of_nearly_all_points_on_digits():
    X, y = load_digits(return_X_y=True)
    settings = TrainingSettings(network="ff", C=200, A=164.0, iterations=30, inference="truncated")
    trainer = Trainer(settings, X + 0.01, y.astype(np.int64), 10, np.random.default_rng(0))
    for _ in trainer:
        pass
    units = trainer.state()["search.units"]
    exact = ExactEngine(trainer._spec, trainer.W, trainer.R, 164.0, 0.6)
    s = exact.infer(Observations(X + 0.01, 164.0).take(np.arange(len(X)), "float32"), np.full(len(X), -1)).s
    covered = np.take_along_axis(s, units.astype(np.int64), axis=1).sum(axis=1)
    assert (units[:, 0] == s.argmax(axis=1)).mean() > 0.95
    assert covered.mean() > 0.95


@pytest.mark.parametrize("interrupted", [4, 8, 15])
@pytest.mark.parametrize(("network", "greedy"), [("ff+", True), ("r+", False), ("r+", True)])
def test_a_training_that_was_interrupted_goes_on_bit_for_bit(network, greedy, interrupted):
    X, y = load_digits(return_X_y=True)
    labels = np.where(np.arange(len(y)) < 100, y, -1)
    settings = TrainingSettings(network=network, C=60, A=164.0, iterations=6, inference="truncated", greedy=greedy)

    def new_trainer():
        return Trainer(settings, X, labels, 10, np.random.default_rng(5))

    whole, first_part, second_part = new_trainer(), new_trainer(), new_trainer()
    for _ in whole:
        pass
    for _ in range(min(interrupted, whole.iteration - 1)):
        first_part.run_iteration()
    second_part.restore({name: np.array(value) for name, value in first_part.state().items()})
    for _ in second_part:
        pass
    np.testing.assert_array_equal(second_part.W, whole.W)
    np.testing.assert_array_equal(second_part.R, whole.R)
    assert second_part.iteration == whole.iteration


def test_classifier_learns_digits_from_few_labels_with_few_candidates():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    labeled = np.concatenate([rng.choice(np.flatnonzero(y[:1400] == k), 10, replace=False) for k in range(10)])
    labels = np.full(1400, -1)
    labels[labeled] = y[labeled]
    network = NeSiClassifier(
        200, network="ff+", inference="truncated", greedy=True, max_iter=100, tol=0.01, random_state=0
    ).fit(X[:1400], labels)
    assert network.converged_
    assert network.score(X[1400:], y[1400:]) > 0.8


def test_wrong_truncation_settings_are_explained():
    X = np.ones((4, 3))
    with pytest.raises(NesiError, match=r"truncated\.active is 0"):
        NeSiClassifier(2, inference="truncated", truncated={"active": 0}).fit(X)
    with pytest.raises(NesiError, match=r"unknown key 'truncated\.activ'; did you mean 'active'"):
        NeSiClassifier(2, inference="truncated", truncated={"activ": 3}).fit(X)
    with pytest.raises(NesiError, match="needs the backend numba, but the backend is c"):
        NeSiClassifier(2, inference="truncated", backend="c").fit(X)


def run_perform(op, inputs, n_outputs):
    storage = [[None] for _ in range(n_outputs)]
    op.perform(None, inputs, storage)
    return [cell[0] for cell in storage]


def run_compiled(op, inputs):
    """As part of a graph for numba, which is cached on disk."""
    variables = [pt.as_tensor_variable(value).type() for value in inputs]
    outputs = op(*variables)
    outputs = list(outputs) if isinstance(outputs, list | tuple) else [outputs]
    function = pytensor.function(
        [In(variable, mutable=True) for variable in variables], outputs, mode="NUMBA", accept_inplace=True
    )
    return function(*inputs)


@pytest.mark.parametrize("network", ["ff+", "r+"])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_truncated_prediction_agrees_with_the_full_posterior(network, layout):
    X, y = load_digits(return_X_y=True)
    labels = np.where(np.arange(len(y)) < 300, y, -1)[:1400]
    model = NeSiClassifier(300, network=network, inference="truncated", max_iter=30, random_state=0)
    model.fit(layout(X[:1400]), labels)
    full = model.predict_proba(layout(X[1400:]))
    quick = model.set_params(predict_inference="truncated").predict_proba(layout(X[1400:]))
    np.testing.assert_allclose(quick.sum(axis=1), 1, rtol=1e-5)
    assert np.mean(quick.argmax(axis=1) == full.argmax(axis=1)) > 0.95
    np.testing.assert_array_equal(quick, model.predict_proba(layout(X[1400:])))  # nothing random


def test_truncated_prediction_with_few_units_looks_at_all_of_them():
    X, y = load_digits(return_X_y=True)
    model = NeSiClassifier(40, inference="truncated", max_iter=20, random_state=0, truncated={"active": 40})
    model.fit(X[:500], y[:500])
    full = model.predict_proba(X[500:])
    np.testing.assert_allclose(model.set_params(predict_inference="truncated").predict_proba(X[500:]), full, atol=1e-5)


def test_truncated_prediction_of_a_committee_is_refused():
    X, y = load_digits(return_X_y=True)
    with pytest.raises(NesiError, match="for a single network, but committee is 2"):
        NeSiClassifier(20, committee=2, predict_inference="truncated", max_iter=1).fit(X, y)
