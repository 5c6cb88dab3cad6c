"""The idx format of MNIST, Fashion-MNIST and EMNIST: a short header, then unsigned bytes."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError

_UNSIGNED_BYTE = 0x08
_CHUNK = 1 << 20


def read_idx_file(path: Path, n_axes: int) -> npt.NDArray[np.uint8]:
    """The array in `path`, gzipped or not (detected by content, not by name)."""
    try:
        with path.open("rb") as raw:
            return read_idx(raw, str(path), n_axes)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); check the file and its permissions.") from error


def read_idx(stream: IO[bytes], where: str, n_axes: int) -> npt.NDArray[np.uint8]:
    """The array in a seekable stream; `where` names it in errors, `n_axes` is 1 for labels and 3 for images."""
    zipped = stream.read(2) == b"\x1f\x8b"
    stream.seek(0)
    try:
        if zipped:
            with gzip.GzipFile(fileobj=stream) as unzipped:
                return _read_plain(unzipped, where, n_axes)  # type: ignore[arg-type]
        return _read_plain(stream, where, n_axes)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{where} is a damaged gzip file ({error}); download it again.") from error


def _read_plain(stream: IO[bytes], where: str, n_axes: int) -> npt.NDArray[np.uint8]:
    header_size = 4 + 4 * n_axes
    header = stream.read(header_size)
    expected_magic = bytes([0, 0, _UNSIGNED_BYTE, n_axes])
    if len(header) >= 4 and header[:4] != expected_magic:
        raise DataError(
            f"{where} starts with {header[:4].hex()}, expected {expected_magic.hex()} "
            f"(idx, unsigned bytes, {n_axes} axes); it is damaged or a different kind of file."
        )
    if len(header) < header_size:
        raise DataError(f"{where} ends after {len(header)} bytes, inside the idx header; download it again.")
    shape = struct.unpack(f">{n_axes}I", header[4:])
    size = math.prod(shape)
    if size == 0:
        raise DataError(f"{where} says it holds an array of shape {shape}, which is empty; download it again.")
    body = _read_exactly(stream, size)
    if len(body) < size:
        raise DataError(f"{where} is truncated: {len(body)} of {size} bytes of data; download it again.")
    if stream.read(1):
        raise DataError(f"{where} is longer than its header says ({size} bytes of data); download it again.")
    return np.frombuffer(body, dtype=np.uint8).reshape(shape)


def _read_exactly(stream: IO[bytes], size: int) -> bytearray:
    """At most `size` bytes, in chunks: a damaged header must not make us request terabytes at once."""
    body = bytearray()
    while len(body) < size:
        piece = stream.read(min(_CHUNK, size - len(body)))
        if not piece:
            break
        body += piece
    return body


def check_pair(images: npt.NDArray[np.uint8], labels: npt.NDArray[np.uint8], where: str) -> None:
    if len(images) != len(labels):
        raise DataError(
            f"{where}: {len(images)} images but {len(labels)} labels; the two files do not belong together, "
            f"download both again."
        )
