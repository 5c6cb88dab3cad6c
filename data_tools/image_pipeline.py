"""Decode many images into one array, on all cores, with only a few chunks in memory besides the result."""

from __future__ import annotations

import multiprocessing
import os
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from itertools import islice
from types import ModuleType

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from data_tools.nist_images import BadImage

#: Turns one encoded image into its pixels; must be importable by name in another process.
Converter = Callable[[bytes], npt.NDArray[np.uint8]]
Chunk = list[tuple[int, bytes]]
#: Images per chunk: enough to make sending them cheap, few enough that a chunk of small images and a chunk of raw
#: images (16 KB each) take about the same memory.
_CHUNK, _CHUNK_BYTES = 500, 500 * 28 * 28
#: With fewer images, starting processes costs more than it saves.
_WORTH_PROCESSES = 4000


def convert_images(
    encoded: Iterable[tuple[int, bytes]],
    convert: Converter,
    pixels: npt.NDArray[np.uint8],
    workers: int | None = None,
    progress: bool = True,
    label: str = "images",
) -> dict[int, str]:
    """Fill row i of `pixels` for every (i, encoded image); returns the reason for each row that could not be filled."""
    if workers is None:
        workers = os.cpu_count() or 1 if len(pixels) >= _WORTH_PROCESSES else 1
    bad: dict[int, str] = {}
    silent = not progress or not sys.stderr.isatty()
    size = max(1, min(_CHUNK, _CHUNK_BYTES // max(1, pixels.shape[1])))
    with tqdm(total=len(pixels), desc=label, unit="img", disable=silent) as bar:
        for rows, values, failures in _converted(_chunks(encoded, size), partial(_convert_chunk, convert), workers):
            pixels[rows] = values
            bad.update(failures)
            bar.update(len(rows) + len(failures))
    return bad


def _chunks(encoded: Iterable[tuple[int, bytes]], size: int) -> Iterator[Chunk]:
    stream = iter(encoded)
    while chunk := list(islice(stream, size)):
        yield chunk


Converted = tuple[list[int], npt.NDArray[np.uint8], dict[int, str]]


def _convert_chunk(convert: Converter, chunk: Chunk) -> Converted:
    rows, values, failures = [], [], {}
    for row, content in chunk:
        try:
            values.append(convert(content))
            rows.append(row)
        except BadImage as reason:
            failures[row] = str(reason)
    return rows, np.array(values, dtype=np.uint8) if values else np.empty((0, 0), dtype=np.uint8), failures


def _converted(chunks: Iterator[Chunk], work: Callable[[Chunk], Converted], workers: int) -> Iterator[Converted]:
    """Results in order. About two chunks per worker are in progress, so memory does not grow with the data."""
    if workers <= 1:
        yield from map(work, chunks)
        return
    # "spawn": forking a process that runs threads (BLAS, numba) can hang.
    context = multiprocessing.get_context("spawn")
    waiting: deque[tuple[Chunk, Future[Converted] | None]] = deque()
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        for chunk in chunks:
            waiting.append((chunk, _submit(pool, work, chunk)))
            # One chunk in progress and one queued per worker; more would only take memory.
            if len(waiting) > 2 * workers:
                yield _finish(*waiting.popleft(), work)
        while waiting:
            yield _finish(*waiting.popleft(), work)


def _submit(pool: ProcessPoolExecutor, work: Callable[[Chunk], Converted], chunk: Chunk) -> Future[Converted] | None:
    try:
        with _nameless_main():
            return pool.submit(work, chunk)
    except BrokenProcessPool:
        return None


@contextmanager
def _nameless_main() -> Iterator[None]:
    """Start workers without the user's script: spawned processes would run it again unless it has a main guard.

    They need nothing from it, as the converters are importable by name.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _finish(chunk: Chunk, future: Future[Converted] | None, work: Callable[[Chunk], Converted]) -> Converted:
    """The worker's result; computed here if workers cannot be started or are killed."""
    if future is not None:
        try:
            return future.result()
        except BrokenProcessPool:
            warnings.warn("worker processes failed; converting images on one core", stacklevel=2)
    return work(chunk)
