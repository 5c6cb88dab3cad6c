"""Every function of nesi.equations against the NumPy twin, on every backend, in both precisions."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
import numpy_twin as twin
import pytensor.tensor as pt
import pytest

from nesi import equations
from nesi.engines.backend import CompiledFunction

TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
THRESHOLD = 0.25


class Case(NamedTuple):
    x: np.ndarray
    labels: np.ndarray
    W: np.ndarray
    R: np.ndarray
    A: float
    epsilon_W: np.ndarray
    epsilon_R: np.ndarray


def make_case(N=6, D=9, C=5, K=3, labels="some", zero_column=False, delta=False, dead_unit=False):
    rng = np.random.default_rng(N + 10 * D + 100 * C + 1000 * K)
    x = rng.integers(0, 9, size=(N, D)) + (rng.random((N, D)) < 0.3)
    x[:, 0] += 1  # no row is empty
    if zero_column:
        x[:, 1] = 0
    known = np.arange(N) % K
    if labels == "some":
        known[::2] = -1
    elif labels == "none":
        known[:] = -1
    R = rng.random((K, C)) ** 4 + 0.01
    if delta:
        R = np.repeat(np.eye(K), C // K, axis=1)
    if dead_unit:
        R[:, 2] = 0
    R /= R.sum(axis=1, keepdims=True)
    A = D + 8.0
    return Case(x, known, rng.random((C, D)) + 0.8, R, A, 0.3 * rng.random(N), 0.9 * rng.random(N))


CASES = {
    "typical": make_case(),
    "one class": make_case(K=1),
    "as many units as classes": make_case(C=3, K=3),
    "one unit": make_case(C=1),
    "one unit, one class": make_case(C=1, K=1, labels="all"),
    "one labeled point": make_case(N=1, labels="all"),
    "one unlabeled point": make_case(N=1, labels="none"),
    "no label": make_case(labels="none"),
    "all labeled": make_case(labels="all"),
    "all-zero column": make_case(zero_column=True),
    "R = delta": make_case(C=6, delta=True),
    "a unit without class": make_case(dead_unit=True),
}


@cache
def compiled(backend, dtype):
    """One graph with everything, so that it is compiled once per backend and type."""
    x, W, R = (pt.matrix(name, dtype=dtype) for name in ("x", "W", "R"))
    labels, A, threshold = pt.lvector("labels"), pt.dscalar("A"), pt.scalar("threshold", dtype=dtype)
    epsilon_W, epsilon_R = pt.vector("epsilon_W", dtype=dtype), pt.vector("epsilon_R", dtype=dtype)
    out = {"data": equations.bottom_up_input(x)}
    u = out["u"] = equations.label_input(labels, R.shape[0], dtype)
    y = out["y"] = equations.observed_layer(x, A)
    log_W = pt.log(W)
    out["I ff"] = equations.first_hidden_input(y, log_W, u, R, recurrent=False)
    out["I r"] = equations.first_hidden_input(y, log_W, u, R, recurrent=True)
    s = out["s"] = equations.first_hidden(out["I r"])
    out["t"] = equations.second_hidden(s, R, u, labels)
    inferred = out["inferred"] = equations.inferred_class(s, R)
    out["BvSB"] = equations.best_versus_second_best(inferred)
    out["teaching r"] = equations.teaching_signal(u, labels)
    out["teaching r+"] = equations.teaching_signal(u, labels, equations.self_label(inferred, threshold))
    for rule, gains_of in equations.MINIBATCH_RULES.items():
        out[f"R {rule}"] = equations.update_R(R, *gains_of(out["teaching r+"], epsilon_R), s)
        out[f"W {rule}"] = equations.update_W(W, *gains_of(s, epsilon_W), y)
    log_evidence = pt.where(equations.is_labeled(labels), -pt.log(R.shape[0]), 0)
    log_joint = equations.log_joint(equations.bottom_up_drive(y, log_W), W.sum(axis=1), u, log_evidence, R)
    out["log-likelihood"] = equations.log_likelihood(log_joint, equations.log_gamma_term(y))
    posterior_c = out["posterior c"] = equations.posterior_c(y, log_W, u, R)
    posterior_k = out["posterior k"] = equations.posterior_k(R, u, labels)
    out["free energy"] = equations.free_energy(posterior_c, posterior_k, log_W, W, R, y)
    out["M-step W"] = equations.m_step_W(posterior_c, y, A)
    out["M-step R"] = equations.m_step_R(posterior_c, posterior_k)
    inputs = [x, labels, W, R, A, epsilon_W, epsilon_R, threshold]
    function = CompiledFunction("the equations", backend, inputs, list(out.values()), {})
    return lambda *values: dict(zip(out, map(np.asarray, function({}, *values)), strict=True))


def expected(case):
    """The same from the twin."""
    x, labels, W, R, A, epsilon_W, epsilon_R = case
    N, K = len(x), len(R)
    u = [twin.label_vector(label, K) for label in labels]
    y = np.array([twin.normalised(row, A) for row in x])
    out = {"data": x, "u": np.array(u), "y": y}
    for name, recurrent in (("ff", False), ("r", True)):
        out[f"I {name}"] = np.array([twin.unit_inputs(y[n], u[n], W, R, recurrent) for n in range(N)])
    _, out["s"], out["t"] = twin.Twin("r", W, R, A).activities(x, labels)
    inferred = out["inferred"] = np.array([twin.class_posterior(s, R) for s in out["s"]])
    out["BvSB"] = np.array([twin.best_versus_second_best(t) for t in inferred])
    for network in ("r", "r+"):
        out[f"teaching {network}"] = twin.Twin(network, W, R, A, THRESHOLD).teaching(out["s"], labels)
    for rule in ("summed", "sequential"):
        trained = twin.Twin("r+", W, R, A, THRESHOLD, rule)
        trained.step(x, labels, epsilon_W, epsilon_R)
        out[f"R {rule}"], out[f"W {rule}"] = trained.R, trained.W
    out["log-likelihood"] = twin.Twin("r", W, R, A).log_likelihood(x, labels)
    s, p = out["posterior c"], out["posterior k"] = twin.e_step(y, labels, W, R)
    out["free energy"] = twin.free_energy(y, s, p, W, R)
    out["M-step W"], out["M-step R"] = twin.m_step(y, s, p, A)
    return out


@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # a class without data has no M-step
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_equation_agrees_with_the_numpy_twin(backend, dtype):
    for name, case in CASES.items():
        floats = [np.asarray(value, dtype) for value in (case.x, case.W, case.R, case.epsilon_W, case.epsilon_R)]
        x, W, R, epsilon_W, epsilon_R = floats
        case = Case(x, case.labels, W, R, case.A, epsilon_W, epsilon_R)
        threshold = np.asarray(THRESHOLD, dtype)
        actual = compiled(backend, dtype)(x, case.labels, W, R, np.asarray(case.A), epsilon_W, epsilon_R, threshold)
        # From here on the twin calculates in float64 with what the graph was given.
        wanted = expected(Case(*(np.asarray(v, np.float64) if i != 1 else v for i, v in enumerate(case))))
        assert actual.keys() == wanted.keys()
        for what, value in wanted.items():
            np.testing.assert_allclose(
                actual[what], value, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype] * 1e-2, err_msg=f"{name}: {what}"
            )


def test_cases_contain_certain_and_uncertain_points():
    """Otherwise the comparison of self-labels would show nothing."""
    taught = expected(CASES["no label"])["teaching r+"].sum(axis=1)
    assert set(taught) == {0, 1}


def test_self_labels_need_more_than_the_threshold():
    """Strictly more: 0.75 - 0.25 is not above 0.5."""
    t = pt.dmatrix()
    function = CompiledFunction("self-labels", "c", [t], [equations.self_label(t, 0.5)], {})
    (labels,) = function({}, np.array([[0.25, 0.75], [0.2, 0.8], [0.8, 0.2]]))
    np.testing.assert_array_equal(labels, [[0, 0], [0, 1], [1, 0]])


def test_of_two_equally_likely_classes_the_first_is_taken():
    t = pt.dmatrix()
    outputs = [equations.best_versus_second_best(t), equations.self_label(t, -1.0)]
    difference, labels = CompiledFunction("ties", "c", [t], outputs, {})({}, np.array([[0.1, 0.45, 0.45]]))
    assert difference == [0]
    np.testing.assert_array_equal(labels, [[0, 1, 0]])


def test_softmax_survives_inputs_beyond_the_range_of_the_exponential():
    inputs = pt.dmatrix()
    (s,) = CompiledFunction("softmax", "c", [inputs], [equations.first_hidden(inputs)], {})(
        {}, np.array([[4000.0, 4001.0], [-4000.0, -np.inf]])
    )
    np.testing.assert_allclose(s, [[1 / (1 + np.e), np.e / (1 + np.e)], [1, 0]], rtol=1e-12)
