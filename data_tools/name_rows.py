"""Which row each image of a large archive goes to, in a few bytes per image.

A Python string and its entry in a dictionary take about 300 bytes, more than a third of a 28x28 image. A digest of 8
bytes also distinguishes names: two of a million names collide with probability 3e-8, and then there is an error.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

Digests = npt.NDArray[np.uint64]


def digest_of(name: str) -> int:
    """A 64-bit hash of the name; the same on every machine, unlike Python's own hash."""
    # Names on disk may not be valid UTF-8; Python then keeps their bytes as surrogates.
    return int.from_bytes(hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def digests_of(names: Iterable[str]) -> Digests:
    return np.array(array("Q", map(digest_of, names)), dtype=np.uint64)


class NameRows:
    """The row that belongs to each name; 12 bytes per name, found by bisection."""

    def __init__(self, digests: Digests, rows: npt.NDArray[np.int32]) -> None:
        order = np.argsort(digests)
        self._digests, self._rows = digests[order], rows[order]

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.find(name) is not None

    def find(self, name: str) -> int | None:
        digest = np.uint64(digest_of(name))
        place = int(np.searchsorted(self._digests, digest))
        return int(self._rows[place]) if place < len(self) and self._digests[place] == digest else None

    def digest(self, row: int) -> int:
        """The digest of the row's name; slow, for messages."""
        return int(self._digests[np.flatnonzero(self._rows == row)[0]])

    def repeated(self) -> int | None:
        """A row that shares its name with another row, if there is one."""
        same = np.flatnonzero(self._digests[1:] == self._digests[:-1])
        return int(self._rows[same[0]]) if same.size else None
