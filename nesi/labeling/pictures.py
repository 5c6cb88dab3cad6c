"""How a field or a training point looks on the page: a small picture, or the strongest words."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image

SHOWN_WORDS = 16


def picture(values: np.ndarray, shape: tuple[int, int]) -> bytes:
    """A PNG, dark where the values are large; the page inverts it in dark mode."""
    low, high = float(values.min()), float(values.max())
    ink = (values - low) / (high - low) if high > low else np.zeros_like(values)
    grey = np.round(255 * (1 - ink)).astype(np.uint8).reshape(shape)
    stream = io.BytesIO()
    Image.fromarray(grey).save(stream, format="PNG")
    return stream.getvalue()


def words(
    values: np.ndarray, vocabulary: Any, count: int = SHOWN_WORDS, hidden: np.ndarray | None = None
) -> list[dict[str, Any]]:
    """The strongest inputs, relative to the strongest of all; without a vocabulary they are numbered.

    Those that are `hidden` are left out, unless nothing else is left.
    """
    strength = values - values.min()  # without the background
    if hidden is not None and (strength > 0)[~hidden].any():
        strength = np.where(hidden, 0, strength)
    strongest = np.argsort(-strength, kind="stable")[:count]
    largest = max(float(strength[strongest[0]]), 1e-30)
    return [
        {
            "word": str(vocabulary[index]) if vocabulary is not None else f"input {index}",
            "strength": round(float(strength[index]) / largest, 4),
        }
        for index in strongest
        if strength[index] > 0
    ]


def dense_row(X: Any, point: int) -> np.ndarray:
    row = X[[point]]
    return np.asarray(row.toarray() if hasattr(row, "toarray") else row, dtype=np.float64).ravel()
