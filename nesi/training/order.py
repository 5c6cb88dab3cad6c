"""In which order the points are presented: as they are, shuffled, or shuffled in blocks.

Reading points one by one from all over a disk takes long. So of data on disk some blocks of neighbouring points, chosen
at random, are read together; their points are shuffled, and go into mini-batches; then come the next blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from nesi.observations import Observations

_BYTES_TOGETHER = 100_000_000  # of points whose blocks are shuffled together
_FEWEST_BLOCKS = 8  # of them, if these are larger


def shuffled_in_blocks(data: Observations, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """The numbers of all points, those of some blocks at a time."""
    starts = data.block_starts
    order = rng.permutation(len(starts) - 1)
    most = _BYTES_TOGETHER / max(data.bytes_per_point, 1)
    together: list[np.ndarray] = []
    for block in order:
        together.append(np.arange(starts[block], starts[block + 1]))
        if sum(map(len, together)) >= most and len(together) >= _FEWEST_BLOCKS:
            yield rng.permutation(np.concatenate(together))
            together = []
    if together:
        yield rng.permutation(np.concatenate(together))


def in_batches(parts: Iterable[np.ndarray], size: int) -> Iterator[np.ndarray]:
    """Mini-batches of the same size, but for the last one."""
    left = np.empty(0, dtype=np.int64)
    for part in parts:
        left = np.concatenate([left, part])
        full = len(left) // size * size
        for first in range(0, full, size):
            yield left[first : first + size]
        left = left[full:]
    if len(left):
        yield left
