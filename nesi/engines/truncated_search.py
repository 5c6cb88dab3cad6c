"""The truncated E-step as PyTensor Ops with a parallel numba implementation.

For every point only a short list of units is looked at: those that were best last time, the neighbours of the very
best of them, and a few random ones. `perform` is the same in plain Python, slow and simple, for checking.
Points are dense rows y, or the three arrays of sparse rows (data, columns, row_starts) of x = y - 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from numba import njit, prange
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from nesi.engines.kernels import parallel_njit, register_kernel, vectorised_njit
from nesi.equations import VANISHING

_ROWS_PER_TASK = 64
_LOG_VANISHING = float(np.log(VANISHING["float32"]))


# ---- bottom-up drive of one unit for one point ---------------------------------------------------------------


@vectorised_njit
def _dense_drive(points, n, log_W, log_W_sum, c):  # type: ignore[no-untyped-def]
    y = points[0]
    total = y.dtype.type(0)
    for d in range(y.shape[1]):
        total += y[n, d] * log_W[c, d]
    return total


@vectorised_njit
def _sparse_drive(points, n, log_W, log_W_sum, c):  # type: ignore[no-untyped-def]
    data, columns, row_starts = points
    row = log_W[c]
    total = 0.0
    for i in range(np.uint64(row_starts[n]), np.uint64(row_starts[n + 1])):  # unsigned: no test for negative indices
        total += data[i] * row[columns[i]]
    return log_W_sum[c] + total


def _drive(points: Any, n: int, log_W: np.ndarray, log_W_sum: np.ndarray, c: int) -> float:
    if len(points) == 1:
        return float(points[0][n] @ log_W[c])
    data, columns, row_starts = points
    entries = slice(row_starts[n], row_starts[n + 1])
    return float(log_W_sum[c] + data[entries].astype(np.float64) @ log_W[c, columns[entries]])


# ---- E-step ----------------------------------------------------------------------------------------------------


class Search(Op):
    """(log_W, log_W_sum, W_sum, feedback, log_prior, labels, units, neighbours, strangers, *points) -> units, s, bound.

    A row of `units` holds the candidates of a point, best first; a committee has as many rows per point as members, and
    each keeps to the units of its own member, because neighbours and strangers do, too. Candidates compete with the
    neighbours of the `leaders` best among them and with the random `strangers`; the best stay. s is T1.4 on them, and
    the bound is log sum_{c in units} p(y, c | l) without the Gamma term: the free energy of the truncated posterior.
    Where the label rules all of them out, each counts with a weight that is next to nothing.
    `feedback` and `log_prior` have one row per class and a last one for points without a label, as in
    `kernels.Activities`.
    """

    __props__ = ("sparse", "leaders")

    def __init__(self, sparse: bool, leaders: int) -> None:
        self.sparse, self.leaders = sparse, leaders

    def make_node(self, *inputs: Any) -> Apply:
        variables = [pt.as_tensor_variable(x) for x in inputs]
        return Apply(self, variables, [pt.imatrix(), pt.matrix(dtype=variables[0].dtype), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        log_W, log_W_sum, W_sum, feedback, log_prior, labels, units, neighbours, strangers, *points = inputs
        size, C = units.shape[1], len(log_W)
        chosen = np.empty_like(units)
        s = np.empty(units.shape, dtype=log_W.dtype)
        bound = np.empty(len(units))
        members = len(units) // len(labels)
        for r, candidates in enumerate(units):
            n = r // members
            prior, top_down = log_prior[labels[n]], feedback[labels[n]]  # label -1 is the last row

            def score(c: int, n: int = n, top_down: np.ndarray = top_down) -> float:
                return _drive(points, n, log_W, log_W_sum, c) + top_down[c]

            scores = {c: score(c) for c in candidates.tolist()}
            leaders = sorted(scores, key=scores.__getitem__, reverse=True)[: self.leaders]
            others = [*neighbours[leaders].ravel().tolist(), *strangers[r].tolist()]
            scores |= {c: score(c) for c in others if 0 <= c < C and c not in scores}
            best = sorted(scores, key=scores.__getitem__, reverse=True)[:size]
            values = np.array([scores[c] for c in best])
            weights = np.exp(values - values[0]) if np.isfinite(values[0]) else np.zeros(size)
            chosen[r], s[r] = best, weights / max(weights.sum(), 1e-300)
            with np.errstate(invalid="ignore"):  # -inf of a class that rules a unit out
                joint = np.where(np.isfinite(values), values - top_down[best] + prior[best], values) - W_sum[best]
            with np.errstate(invalid="ignore", divide="ignore"):
                if np.isneginf(joint).all():
                    drives = np.array([_drive(points, n, log_W, log_W_sum, c) for c in best])
                    joint = drives - W_sum[best] + _LOG_VANISHING
                bound[r] = joint.max() + np.log(np.exp(joint - joint.max()).sum())
        for storage, value in zip(output_storage, (chosen, s, bound), strict=True):
            storage[0] = value


def _search_kernel(drive: Callable[..., Any], leaders: int) -> Callable[..., Any]:
    @vectorised_njit
    def search_rows(first, last, weights, tables, labels, units, neighbours, strangers, points, results):  # type: ignore[no-untyped-def]
        log_W, log_W_sum, W_sum = weights
        feedback, log_prior = tables
        chosen, s, bound = results
        C, K, size = log_W.shape[0], log_prior.shape[0] - 1, units.shape[1]
        seen_by = np.full(C, -1, dtype=np.int32)  # the last row that has looked at a unit
        value = np.empty(size, dtype=np.float64)
        unit = np.empty(size, dtype=np.int32)
        leader = np.empty(leaders, dtype=np.int32)
        n_neighbours = neighbours.shape[1]
        n_others = leaders * n_neighbours + strangers.shape[1]
        members = units.shape[0] // labels.shape[0]
        for r in range(first, last):
            n = r // members
            row = labels[n] if labels[n] >= 0 else K
            prior, top_down = log_prior[row], feedback[row]
            filled = 0
            for j in range(-size, n_others):
                if j == 0:
                    for i in range(leaders):
                        leader[i] = unit[min(i, size - 1)]
                if j < 0:
                    c = units[r, size + j]
                elif j < leaders * n_neighbours:
                    c = neighbours[leader[j // n_neighbours], j % n_neighbours]
                else:
                    c = strangers[r, j - leaders * n_neighbours]
                if c < 0 or seen_by[c] == r:
                    continue
                seen_by[c] = r
                score = np.float64(drive(points, n, log_W, log_W_sum, c)) + top_down[c]
                if filled == size and score <= value[size - 1]:
                    continue
                place = min(filled, size - 1)  # the worst one leaves
                while place > 0 and value[place - 1] < score:
                    value[place], unit[place] = value[place - 1], unit[place - 1]
                    place -= 1
                value[place], unit[place] = score, c
                filled = min(filled + 1, size)
            best, total, largest = value[0], 0.0, -np.inf
            for j in range(size):
                weight = np.exp(value[j] - best) if best > -np.inf else 0.0
                s[r, j] = weight
                total += weight
                chosen[r, j] = unit[j]
                c = unit[j]
                if value[j] > -np.inf:  # from here on log p(y, l, c); a class may rule a unit out
                    value[j] += prior[c] - top_down[c] - W_sum[c]
                largest = max(largest, value[j])
            if largest == -np.inf:  # the label rules all candidates out: as if it had a vanishing weight for each
                for j in range(size):
                    c = unit[j]
                    value[j] = drive(points, n, log_W, log_W_sum, c) - W_sum[c] + _LOG_VANISHING
                    largest = max(largest, value[j])
            joint = 0.0
            for j in range(size):
                if total > 0:
                    s[r, j] /= total
                joint += np.exp(value[j] - largest)
            bound[r] = largest + np.log(joint)

    @parallel_njit
    def search(log_W, log_W_sum, W_sum, feedback, log_prior, labels, units, neighbours, strangers, *points):  # type: ignore[no-untyped-def]
        n_rows = units.shape[0]
        chosen = np.empty(units.shape, dtype=np.int32)
        s = np.empty(units.shape, dtype=log_W.dtype)
        bound = np.empty(n_rows, dtype=np.float64)
        for task in prange((n_rows + _ROWS_PER_TASK - 1) // _ROWS_PER_TASK):
            first, last = task * _ROWS_PER_TASK, min((task + 1) * _ROWS_PER_TASK, n_rows)
            weights, tables, results = (log_W, log_W_sum, W_sum), (feedback, log_prior), (chosen, s, bound)
            search_rows(first, last, weights, tables, labels, units, neighbours, strangers, points, results)
        return chosen, s, bound

    return search


# ---- who is whose neighbour --------------------------------------------------------------------------------


class Neighbours(Op):
    """(neighbours, units) -> for each unit those that share most points with it, learned from the points it wins.

    A unit that wins no point keeps its old neighbours.
    """

    __props__ = ()
    destroy_map = {0: [0]}  # noqa: RUF012

    def make_node(self, neighbours: Any, units: Any) -> Apply:
        inputs = [pt.as_tensor_variable(neighbours), pt.as_tensor_variable(units)]
        return Apply(self, inputs, [inputs[0].type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        neighbours, units = inputs
        size = units.shape[1]
        votes: dict[int, dict[int, int]] = {}
        for winner, *others in units.tolist():
            shared = votes.setdefault(winner, {})
            for rank, other in enumerate(others, start=1):
                shared[other] = shared.get(other, 0) + size - rank
        for winner, shared in votes.items():
            best = sorted(shared, key=shared.__getitem__, reverse=True)[: neighbours.shape[1]]
            neighbours[winner, : len(best)] = best
        output_storage[0][0] = neighbours


@njit
def _neighbours_kernel(neighbours, units):  # type: ignore[no-untyped-def]
    n_points, size = units.shape
    C, wanted = neighbours.shape
    starts = np.zeros(C + 1, dtype=np.int64)
    for n in range(n_points):
        starts[units[n, 0] + 1] += 1
    for c in range(C):
        starts[c + 1] += starts[c]
    next_place = starts[:-1].copy()
    won = np.empty(n_points, dtype=np.int64)
    for n in range(n_points):
        won[next_place[units[n, 0]]] = n
        next_place[units[n, 0]] += 1
    votes = np.zeros(C, dtype=np.int64)
    voted = np.empty(C, dtype=np.int64)
    for c in range(C):
        n_voted = 0
        for i in range(starts[c], starts[c + 1]):
            for rank in range(1, size):
                other = units[won[i], rank]
                if votes[other] == 0:
                    voted[n_voted] = other
                    n_voted += 1
                votes[other] += size - rank
        for place in range(min(wanted, n_voted)):
            best = voted[0]
            for i in range(n_voted):
                if votes[voted[i]] > votes[best]:
                    best = voted[i]
            neighbours[c, place] = best
            votes[best] = -1
        for i in range(n_voted):
            votes[voted[i]] = 0
    return neighbours


# ---- the exact start ---------------------------------------------------------------------------------------


class BestUnits(Op):
    """(drive, feedback, labels, units) -> the best units of each point among all, as many as `units` has columns.

    In a committee `units` has one row per point and member; each member chooses among its own units.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, [pt.as_tensor_variable(x) for x in inputs], [pt.imatrix()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        drive, feedback, labels, units = inputs
        total = (drive + feedback[labels]).reshape(len(units), -1)  # label -1 is the last row
        best = np.argsort(-total, axis=1, kind="stable")[:, : units.shape[1]]
        member = np.arange(len(units)) % (len(units) // len(labels))
        output_storage[0][0] = (best + total.shape[1] * member[:, None]).astype(np.int32)


@parallel_njit
def _best_units_kernel(drive, feedback, labels, units):  # type: ignore[no-untyped-def]
    n_rows, size = units.shape
    members, K = n_rows // labels.shape[0], feedback.shape[0] - 1
    C = drive.shape[1] // members
    chosen = np.empty(units.shape, dtype=np.int32)
    for r in prange(n_rows):
        n, own = r // members, C * (r % members)
        top_down = feedback[labels[n]] if labels[n] >= 0 else feedback[K]
        value = np.full(size, -np.inf, dtype=np.float64)
        for i in range(C):
            c = own + i
            total = np.float64(drive[n, c]) + top_down[c]
            if i < size or total > value[size - 1]:
                place = min(i, size - 1)
                while place > 0 and value[place - 1] < total:
                    value[place], chosen[r, place] = value[place - 1], chosen[r, place - 1]
                    place -= 1
                value[place], chosen[r, place] = total, c
    return chosen


_DRIVES = {False: _dense_drive, True: _sparse_drive}
register_kernel(Search, lambda op: _search_kernel(_DRIVES[op.sparse], op.leaders), *_DRIVES.values(), _search_kernel)
register_kernel(Neighbours, lambda op: _neighbours_kernel, _neighbours_kernel)
register_kernel(BestUnits, lambda op: _best_units_kernel, _best_units_kernel)
