"""What the Ops of the engine say in NumPy against what numba made of them, and the fast exp and log."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from numba import njit

from nesi.engines import fast_math, kernels, sparse_kernels

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


def test_update_kernel_says_the_same_as_perform(dtype):
    rng = np.random.default_rng(2)
    W = (rng.random((6, 33)) + 0.5).astype(dtype)
    forgotten, learned = rng.random(6).astype(dtype), rng.random((6, 33)).astype(dtype)
    forgotten[2], learned[2] = 0, 0  # a unit that no point activated
    reference = np.log(W).mean(axis=0)
    inputs = (W, np.log(W) - reference, W.sum(axis=1, dtype="float64"), reference, forgotten, learned)
    assert_same(kernels.UpdateW(), kernels._update_W_kernel, *inputs, dtype=dtype)


def sparse_rows(rng, dtype, n_rows=8, width=40):
    x = sp.random_array((n_rows, width), density=0.2, rng=rng, dtype=np.float64).tocsr()
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


def test_log_kernel_says_the_same_as_perform(dtype):
    rng = np.random.default_rng(5)
    W = (3 * rng.random((4, 150)) + 0.1).astype(dtype)
    inputs = (np.zeros_like(W), W, rng.random(150).astype(dtype))
    assert_same(sparse_kernels.LogOfWeights(), sparse_kernels._log_kernel, *inputs, dtype=dtype)


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
