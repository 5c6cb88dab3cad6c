"""Every engine keeps the contracts of `nesi.engines.contract`."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from small_networks import make_data

from nesi.config.network_parameters import TruncatedOptions
from nesi.engines.contract import InferenceEngine, LearningEngine, StepInfo
from nesi.engines.exact import ExactEngine
from nesi.engines.quick_inference import QuickInference
from nesi.engines.specification import NetworkSpec
from nesi.engines.truncated import TruncatedEngine
from nesi.errors import NesiError
from nesi.networks import NETWORKS
from nesi.observations import Observations

A, C, K = 40.0, 6, 3
pytestmark = pytest.mark.usefixtures("one_thread")


def problem(layout):
    X, labels = make_data()
    rng = np.random.default_rng(3)
    W = (1 + rng.random((C, X.shape[1]))).astype("float32")
    R = rng.dirichlet(np.ones(C), size=K).astype("float32")
    return Observations(layout(X), A), labels, W, R


def learning_engine(kind, layout) -> tuple[LearningEngine, Observations, np.ndarray]:
    data, labels, W, R = problem(layout)
    spec = NetworkSpec(NETWORKS["r+"], "sequential", "float32", "numba", data.sparse)
    if kind == "exact":
        return ExactEngine(spec, W, R, A, 0.6), data, labels
    search = TruncatedOptions(active=3, neighbours=2, leaders=1, strangers=1)
    return TruncatedEngine(spec, W, R, A, 0.6, data, labels, np.random.default_rng(0), search), data, labels


def learn(engine: LearningEngine, data: Observations, labels: np.ndarray) -> StepInfo:
    everyone, rates = np.arange(data.n_points), np.full(data.n_points, 0.05)
    info = engine.step(data.take(everyone, "float32"), labels, rates, rates, "WR", everyone)
    engine.end_iteration()
    return info


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["exact", "truncated"])
class TestLearningEngine:
    def test_a_step_learns_and_says_how_well_the_points_were_known(self, kind, layout):
        engine, data, labels = learning_engine(kind, layout)
        before = engine.W.copy(), engine.R.copy()
        info = learn(engine, data, labels)
        assert info.log_likelihood.shape == (data.n_points,)
        assert 0 <= info.self_labeled <= (labels < 0).sum()
        assert all((new != old).any() for new, old in zip((engine.W, engine.R), before, strict=True))

    def test_given_weights_are_copied(self, kind, layout):
        engine, _, _ = learning_engine(kind, layout)
        W, R = engine.W.copy() + 1, engine.R.copy()
        engine.set_weights(W, R)
        W[:] = 0
        assert engine.W.min() > 1

    def test_activities_are_a_distribution_over_units(self, kind, layout):
        engine, data, labels = learning_engine(kind, layout)
        learn(engine, data, labels)
        engine.settle()
        s = engine.activities(data)
        assert s.shape == (data.n_points, C)
        np.testing.assert_allclose(s.sum(axis=1), 1, rtol=1e-5)

    def test_it_goes_on_bit_for_bit_from_its_state(self, kind, layout):
        engine, data, labels = learning_engine(kind, layout)
        other, same_data, _ = learning_engine(kind, layout)
        learn(engine, data, labels)
        other.set_weights(engine.W, engine.R)
        other.restore({name: np.array(value) for name, value in engine.state().items()})
        other.end_iteration()
        np.testing.assert_array_equal(engine.activities(data).toarray(), other.activities(same_data).toarray())


def test_a_state_that_does_not_fit_is_refused():
    engine, _, _ = learning_engine("truncated", np.asarray)
    with pytest.raises(NesiError, match="do not belong to this network"):
        engine.restore({})


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", ["exact", "quick"])
def test_an_inference_engine_answers_for_any_points(kind, layout):
    data, _, W, R = problem(layout)
    spec = NetworkSpec(NETWORKS["r"], "sequential", "float32", "numba", data.sparse)
    engine: InferenceEngine
    engine = ExactEngine(spec, W, R, A, 0.6) if kind == "exact" else QuickInference(spec, W, R, A, 4)
    answer = engine.posterior(data)
    np.testing.assert_allclose(answer.t.sum(axis=1), 1, rtol=1e-5)
    assert answer.log_likelihood.shape == (data.n_points,)
    assert np.isfinite(answer.log_likelihood).all()
