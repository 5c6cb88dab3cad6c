"""Parity with the authors' Theano program: its weights, posteriors and errors on a small case of real MNIST."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy_twin import SELF_LABELING, Twin

from nesi import NeSiClassifier

FILES = {"ff": "ff_even", "r": "r_even", "ff+": "ffplus_even", "r+": "rplus_even"}
FOLDER = Path(__file__).parent / "golden"
BATCH_SIZE = 10
pytestmark = pytest.mark.usefixtures("one_thread")


@cache
def golden(network):
    with np.load(FOLDER / f"{FILES[network]}.npz") as file:
        return dict(file)


def estimator(network, **settings):
    """The estimator with the settings of the file, its absolute learning rates as the paper's factors."""
    case = golden(network)
    N, L = len(case["raw"]), int((case["labels"] >= 0).sum())
    K, C = case["R0"].shape
    taught = N if SELF_LABELING[network] else L
    defaults = {
        "n_subclasses": C,
        "normalization": float(case["A"]),
        "network": network,
        "epsilon_w": float(case["epsilon_W"]) * N / C,
        "epsilon_r": float(case["epsilon_R"]) * taught / K,
        "threshold": max(float(case["threshold"]), 0),
        "batch_size": BATCH_SIZE,
        "minibatch_rule": "summed",
        "shuffle": False,
        "W_init": case["W0"],
        "R_init": case["R0"],
    }
    return NeSiClassifier(**(defaults | settings))


@cache
def fitted(network, iterations, dtype="float32", backend="numba"):
    case = golden(network)
    model = estimator(network, max_iter=iterations, dtype=dtype, backend=backend)
    return model.fit(case["raw"], case["labels"])


def assert_same_as_theirs(model, case, iterations):
    W, R = case[f"W_{iterations}"], case[f"R_{iterations}"]
    np.testing.assert_allclose(model.W_, W, rtol=5e-5, atol=0)
    np.testing.assert_allclose(model.R_, R, rtol=0, atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(case["raw_test"]), case[f"test_t_{iterations}"], rtol=0, atol=1e-4)
    error = 100 * np.mean(model.predict(case["raw_test"]) != case["test_labels"])
    assert error == pytest.approx(float(case[f"test_error_{iterations}"]), abs=1e-4)


@pytest.mark.parametrize("network", FILES)
def test_file_is_the_case_it_claims_to_be(network):
    case = golden(network)
    assert case["raw"].shape == (200, 784)
    assert case["W0"].shape == (20, 784)
    assert set(case["labels"][case["labels"] >= 0].tolist()) == set(range(10)), "the estimator counts classes by labels"
    assert (case["threshold"] < 0) == (not SELF_LABELING[network])
    assert not np.allclose(case["W_1"], case["W0"], rtol=1e-2), "a case in which nothing is learned shows nothing"


@pytest.mark.parametrize("iterations", [1, 5])
@pytest.mark.parametrize("network", FILES)
def test_weights_posteriors_and_errors_are_those_of_the_authors_program(network, iterations):
    assert_same_as_theirs(fitted(network, iterations), golden(network), iterations)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parity_holds_on_every_backend_in_either_precision(backend, dtype):
    """In the network that has everything: top-down input and self-labels."""
    assert_same_as_theirs(fitted("r+", 5, dtype=dtype, backend=backend), golden("r+"), 5)


@pytest.mark.parametrize("network", FILES)
def test_float32_loses_next_to_nothing_to_float64(network):
    """Less than the authors' own rounding: drives are relative, and no row of W is multiplied by a rounded factor."""
    case = golden(network)
    single, double = (fitted(network, 5, dtype) for dtype in ("float32", "float64"))
    np.testing.assert_allclose(single.W_, double.W_, rtol=2e-6, atol=0)
    np.testing.assert_allclose(single.R_, double.R_, rtol=0, atol=1e-5)
    posteriors = [model.predict_proba(case["raw_test"]) for model in (single, double)]
    np.testing.assert_allclose(*posteriors, rtol=0, atol=1e-5)


@pytest.mark.parametrize("network", ["ff+", "r+"])
def test_self_labeling_is_at_work_in_the_files(network):
    assert fitted(network, 5).self_labeled_[-1] > 0


@pytest.mark.parametrize("network", FILES)
def test_our_float64_numpy_twin_agrees_with_the_authors_program(network):
    """So that whatever the other tests compare with the twin is compared with the original, too."""
    case = golden(network)
    twin = Twin(network, case["W0"], case["R0"], float(case["A"]), float(case["threshold"]), rule="summed")
    twin.train(case["raw"], case["labels"], float(case["epsilon_W"]), float(case["epsilon_R"]), BATCH_SIZE, 1)
    np.testing.assert_allclose(twin.W, case["W_1"], rtol=5e-5, atol=0)
    np.testing.assert_allclose(twin.R, case["R_1"], rtol=0, atol=1e-4)


@pytest.mark.parametrize("iterations", [0, 1, 5])
@pytest.mark.parametrize("network", FILES)
def test_log_likelihood_is_theirs_if_R_is_left_out(network, iterations):
    """Their program leaves out the factor sum_k R_kc / K, which is 1 if all entries of R are."""
    case = golden(network)
    W = case[f"W_{iterations}" if iterations else "W0"]
    ones = np.ones_like(case["R0"])
    model = estimator(network, max_iter=0, W_init=W, R_init=ones, dtype="float64").fit(case["raw"], case["labels"])
    ours = model.score_samples(case["raw"]).mean()
    assert ours == pytest.approx(float(case[f"loglik_{iterations}"]), rel=2e-6)
