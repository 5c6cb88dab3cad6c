"""Inference for any number of points, in chunks that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from nesi.engines.exact import ExactEngine, Inference
from nesi.observations import Observations
from nesi.settings import TrainingSettings

_VALUES_AT_ONCE = 10_000_000  # activities that are in memory at once
_ROW_BLOCK = 64


def infer(
    engine: ExactEngine, data: Observations, settings: TrainingSettings, labels: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """t (T1.6) and the log-likelihood of every point, in chunks that fit into memory."""
    t, log_likelihood = [], []
    for chunk, inference in infer_in_chunks(engine, data, labels, settings):
        t.append(inference.t)
        log_likelihood.append(inference.log_likelihood - data.log_gamma[chunk])
    return np.concatenate(t), np.concatenate(log_likelihood)


def infer_in_chunks(
    engine: ExactEngine, data: Observations, labels: np.ndarray | None, settings: TrainingSettings
) -> Iterator[tuple[np.ndarray, Inference]]:
    """Chunks are filled up to whole blocks of rows, so that a point gets the same answer in any company: products of
    matrices with other numbers of rows are rounded differently."""
    known = np.full(data.n_points, -1) if labels is None else labels
    size = max(1, _VALUES_AT_ONCE // max(settings.units, data.n_features if not data.sparse else 1))
    for first in range(0, data.n_points, size):
        chunk = np.arange(first, min(first + size, data.n_points))
        filled = np.resize(chunk, -(-len(chunk) // _ROW_BLOCK) * _ROW_BLOCK)
        inference = engine.infer(data.take(filled, settings.dtype), known[filled])
        yield chunk, Inference(*(part[: len(chunk)] for part in inference))
