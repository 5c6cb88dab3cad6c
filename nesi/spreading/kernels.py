"""The costly steps of spreading as PyTensor Ops with a parallel numba implementation."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy.sparse as sp
from numba import prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines.backend import CompiledFunction
from nesi.engines.kernels import parallel_njit, register_kernel, vectorised_njit

_STRIPS = 64  # of points, which are counted side by side
_PATIENCE = 100  # attempts at reaching the wanted shares
_BOLD = 40  # of these attempts take large steps
_STEPS = (0.3, 0.05)  # powers of wanted/found by which a factor changes, large and small
_LARGEST_CHANGE = 5.0  # of wanted/found


class Walk(Op):
    """(to units: data, columns, row starts; to points: likewise; u, sources, steps) -> u after that many steps.

    One step goes from points to units and back, u <- S D^-1 S^T u, and adds the sources.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [variables[6].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        *graph, u, sources, steps = inputs
        to_units = sp.csr_array(tuple(graph[:3]), shape=(len(graph[2]) - 1, len(u)))
        to_points = sp.csr_array(tuple(graph[3:]), shape=to_units.shape[::-1])
        for _ in range(int(steps)):
            u = to_points @ (to_units @ u) + sources
        output_storage[0][0] = np.asarray(u, dtype=sources.dtype)


@vectorised_njit
def _row_product(data, columns, first, last, values, result):  # type: ignore[no-untyped-def]
    for i in range(first, last):
        for k in range(result.shape[0]):
            result[k] += data[i] * values[columns[i], k]


@parallel_njit
def _walk_kernel(  # type: ignore[no-untyped-def]
    to_units, to_units_columns, to_units_starts, to_points, to_points_columns, to_points_starts, u, sources, steps
):
    here = u.copy()
    units = np.empty((to_units_starts.shape[0] - 1, u.shape[1]), dtype=u.dtype)
    for _ in range(steps):
        for c in prange(units.shape[0]):
            units[c] = 0
            _row_product(to_units, to_units_columns, to_units_starts[c], to_units_starts[c + 1], here, units[c])
        for n in prange(here.shape[0]):
            here[n] = sources[n]
            _row_product(to_points, to_points_columns, to_points_starts[n], to_points_starts[n + 1], units, here[n])
    return here


class BalancedClasses(Op):
    """(u, sizes, shares, slack) -> the class of every point: argmax_k f_k u_nk.

    The factors f are such that every class gets its share of the points, more or less: times 1 - slack to 1 + slack.
    The size of a point is what it counts.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.lvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        u, sizes, shares, slack = inputs
        factors = np.ones(len(shares))
        for attempt in range(_PATIENCE):
            classes = (u * factors).argmax(axis=1)
            ratio = np.bincount(classes, sizes, len(shares)) / (shares * sizes.sum())
            outside = np.abs(ratio - 1) > slack
            if not outside.any():
                break
            step = np.clip(1 / np.maximum(ratio, 1e-6), 1 / _LARGEST_CHANGE, _LARGEST_CHANGE)
            factors[outside] *= step[outside] ** _STEPS[attempt >= _BOLD]
        output_storage[0][0] = classes


@parallel_njit
def _balanced_kernel(u, sizes, shares, slack):  # type: ignore[no-untyped-def]
    n_points, K = u.shape
    total = sizes.sum()
    classes = np.zeros(n_points, dtype=np.int64)
    factors = np.ones(K)
    counts = np.empty((_STRIPS, K))
    size = (n_points + _STRIPS - 1) // _STRIPS
    for attempt in range(_PATIENCE):
        for strip in prange(_STRIPS):
            counts[strip] = 0
            for n in range(strip * size, min(n_points, (strip + 1) * size)):
                best, value = 0, u[n, 0] * factors[0]
                for k in range(1, K):
                    if u[n, k] * factors[k] > value:
                        best, value = k, u[n, k] * factors[k]
                classes[n] = best
                counts[strip, best] += sizes[n]
        fits = True
        for k in range(K):
            ratio = counts[:, k].sum() / (shares[k] * total)
            if abs(ratio - 1) > slack:
                fits = False
                step = min(max(1 / max(ratio, 1e-6), 1 / _LARGEST_CHANGE), _LARGEST_CHANGE)
                factors[k] *= step ** (_STEPS[0] if attempt < _BOLD else _STEPS[1])
        if fits:
            break
    return classes


register_kernel(Walk, lambda op: _walk_kernel, _walk_kernel, _row_product)
register_kernel(BalancedClasses, lambda op: _balanced_kernel, _balanced_kernel)


@cache
def walk_function() -> CompiledFunction:
    """Small next to the training of a first layer, so that it is always compiled for the CPU by numba."""
    graph = [kind(name) for name in ("to units", "to points") for kind in (pt.fvector, pt.ivector, pt.ivector)]
    u, sources, steps = pt.fmatrix("u"), pt.fmatrix("sources"), pt.lscalar("steps")
    inputs = [*graph, u, sources, steps]
    return CompiledFunction("the walk over the graph", "numba", inputs, [Walk()(*inputs)], {})


@cache
def balanced_function() -> CompiledFunction:
    inputs = [pt.fmatrix("u"), pt.dvector("sizes"), pt.dvector("shares"), pt.dscalar("slack")]
    return CompiledFunction("balanced classes", "numba", inputs, [BalancedClasses()(*inputs)], {})
