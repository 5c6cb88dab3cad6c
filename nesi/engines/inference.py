"""Full posteriors for any number of points, in chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import scipy.sparse as sp

from nesi.engines.contract import Inference, Posterior
from nesi.engines.specification import NetworkSpec
from nesi.labels import UNLABELED
from nesi.observations import Observations, Points

_VALUES_AT_ONCE = 10_000_000  # activities that are in memory at once
_ROW_BLOCK = 64
# Activities below this are left out of sparse rows: together they are less than rounding errors.
_NEGLIGIBLE = {"float32": 1e-7, "float64": 1e-14}


class _Infers(Protocol):
    spec: NetworkSpec

    @property
    def R(self) -> np.ndarray: ...

    def infer(self, points: Points, labels: np.ndarray) -> Inference: ...


def full_posterior(engine: _Infers, data: Observations, labels: np.ndarray | None = None) -> Posterior:
    """t (T1.6) and the log-likelihood of every point."""
    t, log_likelihood = [], []
    for chunk, inference in infer_in_chunks(engine, data, labels):
        t.append(inference.t)
        log_likelihood.append(inference.log_likelihood - data.log_gamma[chunk])
    return Posterior(np.concatenate(t), np.concatenate(log_likelihood))


def full_log_likelihood(engine: _Infers, data: Observations, labels: np.ndarray) -> np.ndarray:
    """The log-likelihood of every point, without keeping anything else of it."""
    result = np.empty(data.n_points)
    for chunk, inference in infer_in_chunks(engine, data, labels):
        result[chunk] = inference.log_likelihood - data.log_gamma[chunk]
    return result


def infer_in_chunks(
    engine: _Infers, data: Observations, labels: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, Inference]]:
    """Chunks are filled up to whole blocks of rows, so that a point gets the same answer in any chunk: products of
    matrices with other numbers of rows are rounded differently."""
    known = np.full(data.n_points, UNLABELED) if labels is None else labels
    size = max(1, _VALUES_AT_ONCE // max(engine.R.shape[1], data.n_features if not data.sparse else 1))
    for first in range(0, data.n_points, size):
        chunk = np.arange(first, min(first + size, data.n_points))
        filled = np.resize(chunk, -(-len(chunk) // _ROW_BLOCK) * _ROW_BLOCK)
        inference = engine.infer(data.take(filled, engine.spec.dtype), known[filled])
        yield chunk, Inference(*(part[: len(chunk)] for part in inference))


def sparse_activities(engine: _Infers, data: Observations) -> sp.csr_array:
    """T1.4 without what is negligible; one row per point and member of the committee."""
    committee, units = engine.spec.committee, engine.R.shape[1]
    parts = []
    for _, inference in infer_in_chunks(engine, data):
        s = inference.s.reshape(len(inference.s) * committee, -1)
        s = np.where(s < _NEGLIGIBLE[engine.spec.dtype], 0, s)
        parts.append(sp.csr_array(s / s.sum(axis=1, keepdims=True)))
    rows = sp.csr_array(sp.vstack(parts))
    member = np.repeat(np.arange(rows.shape[0]) % committee, np.diff(rows.indptr))
    columns = rows.indices + units // committee * member  # every member's units come after those of the one before
    return sp.csr_array((rows.data, columns, rows.indptr), shape=(rows.shape[0], units))
