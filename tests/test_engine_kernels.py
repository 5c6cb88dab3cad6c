"""What the Ops of the engine say in NumPy against what numba made of them, and the fast exp and log."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from nesi.engines import excess_kernels, fast_math, kernels, sparse_kernels, update_kernels

DTYPES = ["float32", "float64"]
TOLERANCE = {"float32": 2e-6, "float64": 1e-12}


def performed(op, *inputs):
    """Outputs of `perform`, on copies of the inputs."""
    inputs = [np.array(value) for value in inputs]
    node = op.make_node(*inputs)
    storage = [[None] for _ in node.outputs]
    op.perform(node, inputs, storage)
    return [cell[0] for cell in storage]


def compiled(kernel, *inputs):
    outputs = kernel(*(np.array(value) for value in inputs))
    return list(outputs) if isinstance(outputs, tuple) else [outputs]


def assert_same(op, kernel, *inputs, dtype):
    for ours, theirs in zip(performed(op, *inputs), compiled(kernel, *inputs), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(theirs, ours, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.fixture(params=DTYPES)
def dtype(request):
    return request.param


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("recurrent", [False, True])
def test_activities_kernel_says_the_same_as_perform(dtype, recurrent, members):
    rng = np.random.default_rng(0)
    drive = (20 * rng.random((7, 12))).astype(dtype)
    R = rng.random((4, 12)) * (rng.random((4, 12)) < 0.7)  # with zeros
    with np.errstate(divide="ignore"):
        log_prior = np.log(np.vstack([R, R.mean(axis=0)])).astype(dtype)
    labels = np.array([-1, 0, 1, 2, 3, -1, 2])
    W_sum = (20 + rng.random(12)).astype(dtype)
    feedback = log_prior if recurrent else np.zeros_like(log_prior)
    inputs = (drive, feedback, log_prior, labels, W_sum, np.ones(members))
    assert_same(kernels.Activities(), kernels._activities_kernel, *inputs, dtype=dtype)


@pytest.mark.parametrize("n_units", [1, 5, 1300])
@pytest.mark.parametrize("rule", ["summed", "sequential"])
def test_gains_kernel_says_the_same_as_perform(dtype, rule, n_units):
    rng = np.random.default_rng(1)
    activity, epsilon = rng.random((9, n_units)).astype(dtype), (0.2 * rng.random(9)).astype(dtype)
    assert_same(kernels.Gains(rule), kernels._GAINS[rule], activity, epsilon, dtype=dtype)


@pytest.mark.parametrize("n_points", [1, 3, 25, 600])
@pytest.mark.parametrize("n_units", [1, 6, 300])
def test_drive_of_a_mini_batch_is_the_product(dtype, n_points, n_units):
    rng = np.random.default_rng(8)
    y, log_W = rng.random((n_points, 800)).astype(dtype), rng.standard_normal((n_units, 800)).astype(dtype)
    (found,) = compiled(kernels._drive_kernel, y, log_W)
    np.testing.assert_allclose(found, y.astype(float) @ log_W.T.astype(float), rtol=0, atol=50 * TOLERANCE[dtype])


def inputs_of_an_update(dtype, n_points, n_units, share):
    """`share`: of the gains that are not zero."""
    rng = np.random.default_rng(2)
    W, y = (rng.random((n_units, 850)) + 0.5).astype(dtype), (1 + rng.random((n_points, 850))).astype(dtype)
    gains = (0.5 / n_points * rng.random((n_points, n_units)) * (rng.random((n_points, n_units)) < share)).astype(dtype)
    gains[:, -1] = 0  # a unit that no point activates
    reference, smallest = np.log(W).mean(axis=0), np.array([W.min()], dtype)
    weights = (W, np.log(W) - reference, W.sum(axis=1, dtype="float64"), reference, smallest)
    return (*weights, gains.sum(axis=0), gains, y)


@pytest.mark.parametrize("share", [0.02, 1.0])
@pytest.mark.parametrize(("n_points", "n_units"), [(1, 6), (25, 6), (25, 300), (6, 301)])
def test_update_kernel_says_the_same_as_perform(dtype, n_points, n_units, share):
    inputs = inputs_of_an_update(dtype, n_points, n_units, share)
    exact = performed(update_kernels.UpdateW(), *(np.asarray(value, np.float64) for value in inputs))
    W, log_W, W_sum = compiled(update_kernels._update_W_kernel, *inputs)
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(W, exact[0], **tolerance)
    np.testing.assert_allclose(log_W, exact[1], **tolerance)
    np.testing.assert_allclose(W_sum, exact[2], **tolerance)


def test_a_gain_that_rounding_would_swallow_changes_nothing_and_a_larger_one_does(dtype):
    W, log_W, W_sum, reference, smallest, _, gains, y = inputs_of_an_update(dtype, 25, 300, 0)
    last_digit = np.finfo(dtype).eps
    gains[0, 0], gains[0, 1] = last_digit / 20, 20 * last_digit
    new = compiled(update_kernels._update_W_kernel, W, log_W, W_sum, reference, smallest, gains.sum(axis=0), gains, y)
    changed = (new[0] != W).any(axis=1)
    assert changed.tolist() == [False, True] + [False] * 298


def sparse_rows(rng, dtype, n_rows=8, width=40):
    x = sp.random_array((n_rows, width), density=min(0.2, 60 / width), rng=rng, dtype=np.float64).tocsr()
    return x.data.astype(dtype), x.indices.astype(np.int64), x.indptr.astype(np.int64)


def test_sparse_product_kernel_says_the_same_as_perform(dtype):
    rng = np.random.default_rng(3)
    M = rng.random((5, 40)).astype(dtype)
    op, kernel = sparse_kernels.SparseDot(), sparse_kernels._sparse_dot_kernel
    assert_same(op, kernel, *sparse_rows(rng, dtype), M, dtype="float64" if dtype == "float64" else dtype)


def test_sparse_update_kernel_says_the_same_as_perform(dtype):
    rng = np.random.default_rng(4)
    M, gains = rng.random((5, 40)).astype(dtype), rng.random((8, 5)).astype(dtype)
    gains[:, 1] = 0
    forgotten, lift = (0.1 * gains.sum(axis=0)).astype(dtype), gains.sum(axis=0)
    op, kernel = sparse_kernels.SparseUpdate(), sparse_kernels._sparse_update_kernel
    assert_same(op, kernel, M, forgotten, lift, gains, *sparse_rows(rng, dtype), dtype=dtype)


# ---- the excess over the background --------------------------------------------------------------------------------

SIZES = [(8, 40, 5), (4, 5000, 50), (200, 900, 50)]  # small; several parts; more entries than inputs


def excess_state(rng, dtype, n_inputs, n_units, smallest=0.0):
    V = (smallest + rng.pareto(1.0, (n_inputs, n_units))).astype(dtype)
    sums, lazy = excess_kernels.summed_up(V)
    return [V, np.ones(n_units), sums, V.sum(axis=0, dtype="float64"), lazy]


def some_texts(rng, dtype, n_points, n_inputs, n_units, rate):
    points = sparse_rows(rng, dtype, n_points, n_inputs)
    gains = (rate * rng.dirichlet(np.full(n_units, 0.3), n_points)).astype(dtype)
    return gains.sum(axis=0), gains, *points


@pytest.mark.parametrize("rate", [0.001, 0.3])  # few are forgotten at once, and many
@pytest.mark.parametrize("smallest", [0.0, -0.9])  # -0.9: weights below the background, from elsewhere
@pytest.mark.parametrize(("n_points", "n_inputs", "n_units"), SIZES)
def test_learning_by_the_excess_is_t1_7_step_by_step(dtype, n_points, n_inputs, n_units, smallest, rate):
    rng = np.random.default_rng(5)
    state = excess_state(rng, dtype, n_inputs, n_units, smallest)
    W = 1 + state[0].astype(np.float64)
    # Of 1 + V the last digits are those of 1, so that small weights have fewer; in float64 the series is what counts.
    tolerance = {"float32": 2e-5, "float64": 1e-9}[dtype] / (1 + smallest)
    for _ in range(30):
        forgotten, gains, *points = some_texts(rng, dtype, n_points, n_inputs, n_units, rate / n_points)
        x = sp.csr_array((points[0].astype(float), *points[1:]), shape=(n_points, n_inputs)).toarray()
        drive = excess_kernels._drive_kernel(*points, *state[:3], state[4])
        exact = (1 + x) @ np.log(W)
        np.testing.assert_allclose(drive, exact, rtol=tolerance, atol=tolerance)
        state = list(excess_kernels._update_kernel(*state, forgotten, gains, *points))
        W = W * (1 - forgotten.astype(float)) + (1 + x).T @ gains.astype(float)
        np.testing.assert_allclose(1 + state[1] * state[0], W, rtol=tolerance)
        np.testing.assert_allclose(n_inputs + state[3], W.sum(axis=0), rtol=1e-6)


def test_most_steps_touch_only_the_inputs_that_occur(dtype):
    rng = np.random.default_rng(6)
    state = excess_state(rng, dtype, 5000, 20)
    untouched = state[0].copy()
    forgotten, gains, *points = some_texts(rng, dtype, 2, 5000, 20, 0.001)
    state = list(excess_kernels._update_kernel(*state, forgotten, gains, *points))
    assert (state[1] < 1).any()
    others = np.setdiff1d(np.arange(5000), points[1])
    np.testing.assert_array_equal(state[0][others], untouched[others])


def test_excess_kernels_say_the_same_as_perform(dtype):
    rng = np.random.default_rng(7)
    state = excess_state(rng, dtype, 4000, 7)
    forgotten, gains, *points = some_texts(rng, dtype, 6, 4000, 7, 0.5 / 6)
    tolerance = {"rtol": 50 * TOLERANCE[dtype], "atol": 50 * TOLERANCE[dtype]}
    inputs = (*points, *state[:3], state[4])
    (ours,), (theirs,) = (
        performed(excess_kernels.ExcessDrive(), *inputs),
        compiled(excess_kernels._drive_kernel, *inputs),
    )
    np.testing.assert_allclose(theirs, ours, **tolerance)
    inputs = (*state, forgotten, gains, *points)
    V, scale, _, excess, _ = performed(excess_kernels.ExcessUpdate(), *inputs)
    found = compiled(excess_kernels._update_kernel, *inputs)
    assert found[0].dtype == dtype
    np.testing.assert_allclose(found[1] * found[0], scale * V, **tolerance)  # which part is in the scale may differ
    np.testing.assert_allclose(found[3], excess, **tolerance)


@njit
def fast_exp_of(values):
    return np.array([fast_math.exp(value) for value in values])


@njit
def fast_log_of(values):
    return np.array([fast_math.log(value) for value in values])


def test_fast_exp_is_exact_to_two_units_in_the_last_place():
    x = np.concatenate([np.linspace(-86.9, 0, 20001), [-1e-7, 0.0]]).astype(np.float32)
    exact = np.exp(x.astype(np.float64))
    assert (np.abs(fast_exp_of(x) - exact) / exact).max() <= 2 * np.finfo(np.float32).eps


def test_fast_exp_of_hopeless_units_is_zero():
    np.testing.assert_array_equal(fast_exp_of(np.array([-1000, -np.inf], np.float32)), [0, 0])


def test_fast_log_is_exact_to_two_units_in_the_last_place():
    x = np.concatenate([np.geomspace(1e-30, 1e30, 20001), np.linspace(0.4, 2.5, 20001)]).astype(np.float32)
    exact = np.log(x.astype(np.float64))
    spacing = np.spacing(np.abs(exact).astype(np.float32)).astype(np.float64)
    near_one = np.abs(exact) < 0.1  # there the absolute error counts: log 1 = 0 has no last place
    error = np.abs(fast_log_of(x) - exact)
    assert (error[~near_one] / spacing[~near_one]).max() <= 2
    assert error[near_one].max() <= 2 * np.finfo(np.float32).eps * 0.1
