"""Small made-up files in the real formats."""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image

from data_tools import DataError


def idx_bytes(array: np.ndarray) -> bytes:
    header = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return header + array.astype(np.uint8).tobytes()


def write_idx(path: Path, array: np.ndarray) -> Path:
    content = idx_bytes(array)
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
    return path


def character_png(seed: int = 0, size: int = 128, box: tuple[int, int, int, int] | None = None) -> bytes:
    """Black ink on white: a random blot, or one filled box (left, top, right, bottom)."""
    rng = np.random.default_rng(seed)
    pixels = np.full((size, size), 255, dtype=np.uint8)
    if box is None:
        left, top = rng.integers(5, size // 2, 2)
        box = (left, top, left + int(rng.integers(8, 40)), top + int(rng.integers(8, 40)))
    pixels[box[1] : box[3], box[0] : box[2]] = 0
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()


@contextmanager
def reporting_only_data_errors(named: str) -> Iterator[None]:
    """Let the block succeed or fail with the module's own error that names the file; any other error is a failure."""
    try:
        yield
    except DataError as error:
        if named not in str(error):
            raise AssertionError(f"{error} does not name {named}") from error
