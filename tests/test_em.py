"""Batch EM as a way to train: the paper's M-step, a likelihood that never falls, the fixed points of learning."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy_twin as twin
import pytest
import scipy.sparse as sp
from command_line import run_here, write_params
from small_networks import make_data, make_model, make_trainer

from nesi import NesiError
from nesi.storage.experiment_directory import ExperimentDirectory


@pytest.mark.parametrize("layout", ["dense", "sparse"])
@pytest.mark.parametrize("batch_size", [7, 1000])
def test_an_iteration_is_the_papers_e_and_m_step(backend, layout, batch_size):
    X, labels = make_data(N=50)
    A = X.shape[1] + 20.0
    data = sp.csr_array(X) if layout == "sparse" else X
    settings = {"network": "r", "training": "em", "backend": backend, "dtype": "float64", "batch_size": batch_size}
    trainer = make_trainer(data, labels, **settings)
    W, R = trainer.W.astype(float), trainer.R.astype(float)
    y = np.array([twin.normalised(x, A) for x in X])
    for _ in range(3):
        expected = twin.Twin("r", W, R, A).log_likelihood(X, labels).mean()
        assert trainer.run_iteration().log_likelihood == pytest.approx(expected, rel=1e-10)
        W, R = twin.m_step(y, *twin.e_step(y, labels, W, R), A)
        np.testing.assert_allclose(trainer.W, W, rtol=1e-9)
        np.testing.assert_allclose(trainer.R, R, rtol=1e-9, atol=1e-14)


def test_the_likelihood_never_falls():
    X, labels = make_data(N=90, share_labeled=0.2)
    trainer = make_trainer(X, labels, network="r", training="em", iterations=60, dtype="float64", C=9)
    for _ in trainer:
        pass
    history = np.array(trainer.history["log_likelihood"])
    assert (np.diff(history) > -1e-10).all()
    assert history[-1] > history[0] + 0.1
    np.testing.assert_allclose(trainer.W.sum(axis=1), X.shape[1] + 20.0)
    np.testing.assert_allclose(trainer.R.sum(axis=1), 1)


def test_learning_stays_where_em_has_converged():
    """A fixed point of EM is one of the network: with small rates the weights stay there."""
    X, labels = make_data(N=90, share_labeled=1)
    em = make_trainer(X, labels, network="r", training="em", iterations=400, dtype="float64", C=9)
    for _ in em:
        pass
    rates = {"epsilon_W": 1e-3, "epsilon_R": 1e-3}
    online = make_trainer(
        *(X, labels), network="r", dtype="float64", C=9, W_init=em.W, R_init=em.R, iterations=50, batch_size=1, **rates
    )
    for _ in online:
        pass
    assert np.abs(online.W / em.W - 1).max() < 1e-3
    np.testing.assert_allclose(online.R, em.R, atol=1e-4)


def test_a_point_that_counts_twice_is_there_twice():
    X, labels = make_data(N=30)
    twice = np.where(np.arange(30) < 10, 2.0, 1.0)
    settings = {"network": "r", "training": "em", "max_iter": 5, "dtype": "float64"}
    start = make_model(**{**settings, "max_iter": 0}).fit(X, labels)
    weighted = make_model(**settings, W_init=start.W_).fit(X, labels, sample_weight=twice)
    repeated = make_model(**settings, W_init=start.W_).fit(
        np.vstack([X, X[:10]]), np.concatenate([labels, labels[:10]])
    )
    np.testing.assert_allclose(weighted.W_, repeated.W_, rtol=1e-9)
    np.testing.assert_allclose(weighted.R_, repeated.R_, rtol=1e-9)


def test_units_that_explain_nothing_keep_their_weights():
    X, labels = make_data(N=40)
    W = np.abs(np.random.default_rng(0).normal(3, 1, (6, X.shape[1]))) + 0.5
    R = np.full((3, 6), 1 / 5)
    R[:, 5] = 0  # no class uses unit 5
    trainer = make_trainer(X, labels, network="r", training="em", W_init=W, R_init=R, dtype="float64")
    trainer.run_iteration()
    np.testing.assert_array_equal(trainer.W[5], W[5])
    assert np.isfinite(trainer.W).all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"network": "ff"}, "use 'r'"),
        ({"network": "r", "inference": "truncated"}, "needs inference 'exact'"),
        ({"network": "r", "greedy": True}, "needs inference 'exact'"),
        ({"network": "r", "committee": 2}, "needs inference 'exact'"),
    ],
)
def test_what_em_is_not_for(settings, words):
    X, labels = make_data()
    with pytest.raises(NesiError, match=words):
        make_model(training="em", **settings).fit(X, labels)


def test_em_needs_certain_labels_and_no_learning_rates():
    X, labels = make_data()
    with pytest.raises(NesiError, match="for certain"):
        make_model(training="em", network="r", label_noise=0.2).fit(X, labels)
    unstable = {"minibatch_rule": "summed", "epsilon_w": 50.0, "batch_size": 60}
    assert np.isfinite(make_model(training="em", network="r", **unstable).fit(X, labels).log_likelihood_).all()


def test_a_parameter_file_can_ask_for_em(tmp_path: Path):
    path = write_params(tmp_path / "p.yaml", networks=["r"], C=20, runs=1, iterations=8, training="em")
    code, _, errors = run_here(path, "--out", tmp_path / "out", "--quiet")
    assert code == 0, errors
    (record,) = ExperimentDirectory(tmp_path / "out").records()
    assert record["settings"]["training"] == "em"
    assert record["test_error"] < 60
    code, _, errors = run_here(path, "--network", "ff", "--out", tmp_path / "other")
    assert code == 2
    assert "use it with networks: [r]" in errors
