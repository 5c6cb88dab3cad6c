"""Points that stay on disk: a matrix that is read row by row, as it is asked for, in its own type.

`RowsOnDisk` is a row of shards, each a memory map, a file that is decoded as a whole, or a block of a dask array. It is
indexed like an array, and gives arrays (or CSR rows) that are in memory. What is derived from it (some of its rows,
positive and negative parts) stays on disk as well.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from mmap import MADV_DONTNEED
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError

Indices = npt.NDArray[np.int64]

_BLOCK_BYTES = 1_000_000  # that much is read in one go when points are shuffled
_CHUNK_BYTES = 16_000_000  # and that much when all points are gone through
_DECODED_BYTES = 200_000_000  # of shards that have to be decoded as a whole; the last ones are kept


class Shard(Protocol):
    """Some of the points."""

    @property
    def shape(self) -> tuple[int, int]: ...
    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def sparse(self) -> bool: ...
    @property
    def stored(self) -> int:
        """How many values it holds, without the zeros of sparse rows."""

    @property
    def whole(self) -> bool:
        """Whether it can only be read as a whole."""

    def read(self, rows: Indices) -> Any:
        """These rows, in memory."""


class MappedFile:
    """A .npy file, of which only the rows that are asked for are read."""

    sparse = whole = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self.shape = (int(self._map.shape[0]), int(np.prod(self._map.shape[1:], dtype=np.int64)))
        self.dtype = self._map.dtype

    @property
    def stored(self) -> int:
        return self.shape[0] * self.shape[1]

    def read(self, rows: Indices) -> Any:
        found = np.asarray(self._map[rows]).reshape(len(rows), -1)
        pages: Any = self._map._mmap  # type: ignore[attr-defined]
        pages.madvise(MADV_DONTNEED)  # what was read is ours now; the pages need not count as our memory
        return found

    @cached_property
    def _map(self) -> npt.NDArray[Any]:
        return _mapped(self._path)

    def __getstate__(self) -> dict[str, Any]:
        """Whoever gets this opens the file when it is read, and can say so if it is not there."""
        return {"_path": self._path.resolve(), "shape": self.shape, "dtype": self.dtype}


class ArrayShard:
    """Rows of an array that somebody else has opened, such as a memory map."""

    sparse = whole = False

    def __init__(self, rows: npt.NDArray[Any]) -> None:
        self._rows = rows
        self.shape, self.dtype = (int(rows.shape[0]), int(rows.shape[1])), rows.dtype

    @property
    def stored(self) -> int:
        return self.shape[0] * self.shape[1]

    def read(self, rows: Indices) -> Any:
        return np.asarray(self._rows[rows])


class DecodedShards:
    """What several shards have decoded last, so that a pass decodes each of them once."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def get(self, shard: WholeShard) -> Any:
        if id(shard) in self._kept:
            self._kept.move_to_end(id(shard))
            return self._kept[id(shard)]
        self._kept[id(shard)] = _without_duplicates(shard.decoded())
        while len(self._kept) > 1 and sum(map(_bytes_of, self._kept.values())) > _DECODED_BYTES:
            self._kept.popitem(last=False)
        return self._kept[id(shard)]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


@dataclass(frozen=True, eq=False)
class WholeShard:
    """A shard that is decoded as a whole: a compressed file, a part of a table, a block of a dask array."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sparse: bool
    stored: int
    last: DecodedShards
    whole = True

    def decoded(self) -> Any:
        raise NotImplementedError

    def read(self, rows: Indices) -> Any:
        return self.last.get(self)[rows]


@dataclass(frozen=True, eq=False)
class DaskBlock(WholeShard):
    """Rows of a dask array."""

    block: Any

    def decoded(self) -> Any:
        found = self.block.compute(scheduler="synchronous")
        return found.tocsr() if is_sparse(found) else np.asarray(found)


class RowsOnDisk:
    """A matrix of points x inputs that is never in memory as a whole."""

    ndim = 2

    def __init__(
        self,
        shards: Sequence[Shard],
        rows: Indices | None = None,
        pairs: Callable[[Any], Any] | None = None,
        exponents: Indices | None = None,
    ) -> None:
        """`rows`: which of them there are; `pairs`: makes two inputs of each, of rows in memory; `exponents`: powers of
        two that rows are divided by."""
        self._shards, self._rows, self._pairs, self._exponents = list(shards), rows, pairs, exponents
        self._starts = np.concatenate([[0], np.cumsum([shard.shape[0] for shard in self._shards])]).astype(np.int64)
        n_points = int(self._starts[-1]) if rows is None else len(rows)
        self.shape = (n_points, self._shards[0].shape[1] * (1 if pairs is None else 2))
        types = {shard.dtype for shard in self._shards}
        self.dtype = np.result_type(*types)
        if pairs is not None and self._shards[0].shape[0]:
            self.dtype = pairs(self._shards[0].read(np.zeros(1, dtype=np.int64))).dtype
        if exponents is not None:
            self.dtype = np.dtype(np.float64)
        self.sparse = self._shards[0].sparse

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def nnz(self) -> int:
        """How many values there are, without the zeros of sparse rows; of chosen rows their share."""
        return int(sum(shard.stored for shard in self._shards) * self.shape[0] / max(int(self._starts[-1]), 1))

    def __getitem__(self, rows: Any) -> Any:
        """Rows, in memory."""
        chosen = self._indices(rows)
        places = chosen if self._rows is None else self._rows[chosen]
        found = self._read(places)
        if self._pairs is not None:
            found = self._pairs(found)
        if self._exponents is not None:
            found = _divided(found, self._exponents[chosen])
        return found

    def _indices(self, rows: Any) -> Indices:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(len(self)), dtype=np.int64)
        rows = np.asarray(rows)
        if rows.dtype == bool:
            return np.flatnonzero(rows)
        if rows.ndim != 1:
            raise TypeError("rows on disk are chosen by a slice, or by a list of their numbers")
        return np.where(rows < 0, rows + len(self), rows).astype(np.int64)

    def _read(self, places: Indices) -> Any:
        if len(places) and not 0 <= places.min() <= places.max() < self._starts[-1]:
            raise IndexError(f"row {places.max()} is asked for, but there are {self._starts[-1]}")
        order = np.argsort(places, kind="stable")  # every shard is visited once, in the order of the disk
        bounds = np.searchsorted(places[order], self._starts)
        parts = [
            shard.read(places[order[first:last]] - start)
            for shard, start, first, last in zip(self._shards, self._starts, bounds, bounds[1:], strict=False)
            if first < last
        ]
        if self.sparse:
            from scipy import sparse

            back = np.empty(len(order), dtype=np.int64)
            back[order] = np.arange(len(order))
            stacked = sparse.vstack(parts) if parts else sparse.csr_array((0, self._shards[0].shape[1]))
            return sparse.csr_array(sparse.csr_array(stacked)[back])
        found = np.empty((len(places), self._shards[0].shape[1]), np.result_type(*[s.dtype for s in self._shards]))
        done = 0
        for part in parts:
            found[order[done : done + len(part)]] = part
            done += len(part)
        return found

    # ---- what stays on disk ----------------------------------------------------------------------------------------

    def selected(self, rows: Any) -> RowsOnDisk:
        """Some of the rows."""
        chosen = self._indices(rows)
        places = chosen if self._rows is None else self._rows[chosen]
        exponents = None if self._exponents is None else self._exponents[chosen]
        return RowsOnDisk(self._shards, places, self._pairs, exponents)

    def in_pairs(self, pairs: Callable[[Any], Any]) -> RowsOnDisk:
        """Two inputs for each: what `pairs` makes of rows that are in memory."""
        return RowsOnDisk(self._shards, self._rows, pairs, self._exponents)

    def divided_by_powers_of_two(self, exponents: Indices) -> RowsOnDisk:
        return RowsOnDisk(self._shards, self._rows, self._pairs, exponents)

    # ---- going through all of it -------------------------------------------------------------------------------------

    @property
    def _bytes_per_row(self) -> int:
        values = -(-self.nnz // max(len(self), 1)) if self.sparse else self.shape[1]
        return max(1, values * self.dtype.itemsize)

    def chunks(self) -> Iterator[tuple[slice, Any]]:
        """All rows in their order, a few megabytes at a time."""
        size = max(1, _CHUNK_BYTES // self._bytes_per_row)
        for first in range(0, len(self), size):
            part = slice(first, min(first + size, len(self)))
            yield part, self[part]

    @cached_property
    def block_starts(self) -> Indices:
        """Where the blocks begin that are read in one go, and where the last one ends."""
        starts = []
        for shard, first in zip(self._shards, self._starts, strict=False):
            bytes_per_row = max(1, shard.stored * shard.dtype.itemsize // max(shard.shape[0], 1))
            size = shard.shape[0] if shard.whole else max(1, _BLOCK_BYTES // bytes_per_row)
            starts.append(np.arange(first, first + shard.shape[0], max(size, 1)))
        places = np.append(np.concatenate(starts), self._starts[-1])
        if self._rows is None:
            return places
        if (np.diff(self._rows) < 0).any():  # in an order of their own: there is no block that lies together
            size = max(1, _BLOCK_BYTES // self._bytes_per_row)
            return np.append(np.arange(0, len(self), size), len(self))
        return np.unique(np.searchsorted(self._rows, places))


def is_sparse(X: Any) -> bool:
    """Whether it is a matrix of SciPy; without loading SciPy, which takes 15 MB, for data that has none."""
    return "scipy.sparse" in sys.modules and bool(sys.modules["scipy.sparse"].issparse(X))


def parts_of(X: Any) -> Iterator[tuple[slice, Any]]:
    """All rows of a matrix in their order: at once, or a few megabytes at a time if they are on disk."""
    if isinstance(X, RowsOnDisk):
        yield from X.chunks()
    else:
        yield slice(0, X.shape[0]), X


def positive_and_negative(X: Any) -> Any:
    """The positive part of every input, and then the negative part of every input; of rows in memory."""
    if is_sparse(X):
        from scipy import sparse

        X = X.tocsr()
        return sparse.hstack([X.maximum(0), (-X).maximum(0)], format="csr")
    X = np.asarray(X)
    zero = np.zeros((), X.dtype)
    return np.concatenate([np.maximum(X, zero), np.maximum(-X, zero)], axis=1)


def chosen_rows(X: Any, rows: Any) -> Any:
    """Some rows of a matrix; of one on disk they stay there."""
    return X.selected(rows) if isinstance(X, RowsOnDisk) else X[rows]


def as_rows_on_disk(X: Any) -> Any:
    """Memory maps and dask arrays as `RowsOnDisk`; anything else as it is."""
    if isinstance(X, np.memmap) and X.ndim == 2:
        return RowsOnDisk([ArrayShard(X)])
    if type(X).__module__.startswith("dask.array") and getattr(X, "ndim", 0) == 2:
        return _dask_rows(X)
    return X


def _dask_rows(X: Any) -> RowsOnDisk:
    if any(np.isnan(n) for axis in X.chunks for n in axis):
        raise DataError("the dask array has parts of unknown size; call compute_chunk_sizes() first.")
    if len(X.chunks[1]) > 1:
        X = X.rechunk({1: -1})
    last = DecodedShards()
    scattered = is_sparse(X._meta)
    shards = [
        DaskBlock(block.shape, X.dtype, scattered, int(np.prod(block.shape)), last, block)
        for block in (X.blocks[i] for i in range(len(X.chunks[0])))
        if block.shape[0]
    ]
    if not shards:
        raise DataError(f"the dask array has the shape {X.shape}, expected points x inputs; give at least one point.")
    return RowsOnDisk(shards)


def _mapped(path: Path) -> npt.NDArray[Any]:
    try:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an .npy array ({str(error)[:120]}); save it again.") from None
    if not isinstance(mapped, np.memmap) or mapped.ndim < 2 or not mapped.size:
        shape = getattr(mapped, "shape", ())
        raise DataError(f"{path} holds data of shape {shape}, expected points x inputs; correct it.")
    return mapped


def _divided(rows: Any, exponents: Indices) -> Any:
    rows = rows.astype(np.float64)
    if is_sparse(rows):
        rows.data = np.ldexp(rows.data, -np.repeat(exponents, np.diff(rows.indptr)))
        return rows
    return np.ldexp(rows, -exponents[:, None])


def _without_duplicates(matrix: Any) -> Any:
    """CSR rows may give an input in several parts; what belongs to somebody else is not changed."""
    if is_sparse(matrix) and not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix


def _bytes_of(matrix: Any) -> int:
    return int(matrix.data.nbytes)
