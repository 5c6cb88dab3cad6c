"""The exact engine against the NumPy twin: networks, rules, types, dense and sparse data, backends."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from numpy_twin import Twin
from scipy.special import gammaln

from nesi.engines.exact import ExactEngine
from nesi.engines.specification import NetworkSpec
from nesi.networks import NETWORKS
from nesi.observations import Observations

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
THRESHOLD = 0.3

# The four networks share a compiled graph. On numba every graph is compared; on the other backends, where compiling
# takes longer, half of them, such that every pair of settings occurs.
GRAPHS = list(product(("sequential", "summed"), ("float32", "float64"), ("dense", "sparse")))
PAIRWISE = [
    ("sequential", "float32", "dense"),
    ("sequential", "float64", "sparse"),
    ("summed", "float32", "sparse"),
    ("summed", "float64", "dense"),
]
COMBINATIONS = [("numba", *graph) for graph in GRAPHS]
COMBINATIONS += [(backend, *graph) for backend in ("c", "jax") for graph in PAIRWISE]


def make_problem(N=14, D=12, C=6, K=3, seed=1):
    """Data with an all-zero column; some points labeled; weights that make some points certain of their class."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 6, size=(N, D)).astype(np.float64)
    X[:, 0] += 1
    X[:, -1] = 0
    labels = np.where(np.arange(N) % 3 == 0, np.arange(N) % K, -1)
    W = rng.random((C, D)) + 0.8
    R = rng.random((K, C)) + 6 * (np.arange(C) % K == np.arange(K)[:, None])
    return X, labels, W, R / R.sum(axis=1, keepdims=True), D + 6.0


def make_engine(backend, network, rule, dtype, layout, W, R, A):
    if backend == "jax":
        pytest.importorskip("jax")
    spec = NetworkSpec(NETWORKS[network], rule, dtype, backend, layout == "sparse")
    return ExactEngine(spec, W, R, A, THRESHOLD)


def points(X, layout, A, dtype):
    return Observations(sp.csr_array(X) if layout == "sparse" else X, A).take(np.arange(len(X)), dtype)


def assert_close(actual, expected, dtype):
    np.testing.assert_allclose(actual, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 1e-2)


def run_against_twin(backend, network, rule, dtype, layout, problem, batch_size=5):
    """Train batch by batch on both sides, the last batch being smaller; compare after every batch, then inference."""
    X, labels, W, R, A = problem
    W, R = W.astype(dtype), R.astype(dtype)
    engine = make_engine(backend, network, rule, dtype, layout, W, R, A)
    twin = Twin(network, W, R, A, THRESHOLD, rule)
    rng = np.random.default_rng(2)
    for first in range(0, len(X), batch_size):
        part, known = X[first : first + batch_size], labels[first : first + batch_size]
        rates_W, rates_R = rng.random((2, len(part))) * 0.2
        before = twin.log_likelihood(part, known)
        info = engine.step(points(part, layout, A, dtype), known, rates_W, rates_R)
        self_labeled = twin.step(part, known, rates_W.astype(dtype), rates_R.astype(dtype))
        assert_close(engine.W, twin.W, dtype)
        assert_close(engine.R, twin.R, dtype)
        log_gamma = gammaln(Observations(part, A).scale[:, None] * part + 2).sum(axis=1)
        assert_close(info.log_likelihood - log_gamma, before, dtype)
        assert info.self_labeled == self_labeled
        assert engine.W.dtype == engine.R.dtype == dtype
    inference = engine.infer(points(X, layout, A, dtype), labels)
    _, s, t = twin.activities(X, labels)
    assert_close(inference.s, s, dtype)
    assert_close(inference.t, t, dtype)


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize(("backend", "rule", "dtype", "layout"), COMBINATIONS)
def test_engine_follows_the_twin_batch_by_batch(backend, network, rule, dtype, layout):
    run_against_twin(backend, network, rule, dtype, layout, make_problem())


def test_the_problem_contains_self_labeled_points():
    X, labels, W, R, A = make_problem()
    count = Twin("r+", W, R, A, THRESHOLD).step(X, labels, 0.1, 0.1)
    assert 0 < count < (labels < 0).sum()


def all_labeled(problem, label=None):
    X, _, W, R, A = problem
    return X, np.arange(len(X)) % len(R) if label is None else np.full(len(X), label), W, R, A


EDGES = {
    "one class": make_problem(K=1),
    "as many units as classes": make_problem(C=3, K=3),
    "one unit": make_problem(C=1),
    "one unit and one class": make_problem(C=1, K=1),
    "one point": make_problem(N=1),
    "no label": all_labeled(make_problem(), label=-1),
    "all labeled": all_labeled(make_problem()),
    "more units than a block of the kernels": make_problem(C=1100, D=5),
}


@pytest.mark.parametrize("edge", EDGES)
@pytest.mark.parametrize("layout", ["dense", "sparse"])
def test_edge_cases_follow_the_twin(layout, edge):
    rule = "sequential" if EDGES[edge][2].shape[0] > 1000 or layout == "sparse" else "summed"
    network = "r" if rule == "sequential" else "r+"
    dtype = "float64" if layout == "sparse" or rule == "summed" else "float32"
    run_against_twin("numba", network, rule, dtype, layout, EDGES[edge])


def test_units_that_the_label_rules_out_stay_silent(backend):
    """R = delta: log 0 in T1.5 must give an activity of zero, not NaN."""
    X, _, W, _, A = make_problem(C=6, K=3)
    labels = np.arange(len(X)) % 3
    R = np.repeat(np.eye(3), 2, axis=1) / 2
    engine = make_engine(backend, "r+", "summed", "float64", "dense", W, R, A)
    s = engine.infer(points(X, "dense", A, "float64"), labels).s
    assert not s[np.repeat(np.eye(3), 2, axis=1)[labels] == 0].any()
    engine.step(points(X, "dense", A, "float64"), labels, np.full(len(X), 0.05), np.full(len(X), 0.05))
    np.testing.assert_array_equal(engine.R > 0, R > 0)


def test_learning_one_layer_leaves_the_other_alone():
    X, labels, W, R, A = make_problem()
    rates = np.full(len(X), 0.05)
    engine = make_engine("numba", "ff", "sequential", "float32", "dense", W, R, A)
    engine.step(points(X, "dense", A, "float32"), labels, rates, rates, learn="W")
    np.testing.assert_array_equal(engine.R, R.astype("float32"))
    twin = Twin("ff", W, R, A, THRESHOLD, "sequential")
    twin.step(X, labels, 0.05, 0.05)
    assert_close(engine.W, twin.W, "float32")


def test_weights_given_to_an_engine_are_not_written_over():
    X, labels, W, R, A = make_problem()
    W, R = W.astype("float32"), R.astype("float32")
    kept_W, kept_R = W.copy(), R.copy()
    engine = make_engine("numba", "ff", "sequential", "float32", "dense", W, R, A)
    engine.step(points(X, "dense", A, "float32"), labels, np.full(len(X), 0.1), np.full(len(X), 0.1))
    np.testing.assert_array_equal(W, kept_W)
    np.testing.assert_array_equal(R, kept_R)


def test_two_engines_of_a_kind_do_not_share_weights():
    X, labels, W, R, A = make_problem()
    rates = np.full(len(X), 0.1)
    one, other = (make_engine("numba", "ff", "sequential", "float32", "dense", W, R, A) for _ in range(2))
    one.step(points(X, "dense", A, "float32"), labels, rates, rates)
    np.testing.assert_array_equal(other.W, W.astype("float32"))
    other.step(points(X, "dense", A, "float32"), labels, rates, rates)
    np.testing.assert_array_equal(other.W, one.W)
