"""Archives: damaged ones, and ones that were made to do harm."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from hostile import Attacker, NotANumber, Rng, mutated, one_of

import data_tools
from data_tools.archives import fingerprint, member_names, read_members

_LARGEST = 20_000
_NAMES = (
    "a.png",
    "b/c.txt",
    "../../etc/x",
    "/etc/passwd",
    "C:\\x",
    "a/../../b",
    "..\\x",
    "x\0y",
    "",
    "a" * 300,
    "ä/ß",
    "b/",
)
_MODES = {"tar": "w", "tar.gz": "w:gz", "tar.bz2": "w:bz2", "tar.xz": "w:xz"}
_KINDS = (
    tarfile.REGTYPE,
    tarfile.SYMTYPE,
    tarfile.LNKTYPE,
    tarfile.CHRTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
    b"L",
    b"x",
)


def _content(rng: Rng) -> bytes:
    size = int(one_of(rng, [0, 1, 50, 3000, _LARGEST, 2_000_000]))
    return bytes(size) if rng.random() < 0.5 else rng.bytes(min(size, 3000))


def _zip(rng: Rng, names: list[str]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo(name or "nameless")
            info.compress_type = int(one_of(rng, [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2]))
            archive.writestr(info, _content(rng))
    return _with_false_header(stream.getvalue(), rng) if rng.random() < 0.6 else stream.getvalue()


def _with_false_header(content: bytes, rng: Rng) -> bytes:
    """Another size, checksum, method, offset, number of members, or the bit that says "encrypted"."""
    damaged = bytearray(content)
    signature, fields = one_of(
        rng,
        [
            (b"PK\x01\x02", [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)]),
            (b"PK\x03\x04", [(6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)]),
            (b"PK\x05\x06", [(4, 2), (8, 2), (10, 2), (12, 4), (16, 4), (20, 2)]),
        ],
    )
    place = damaged.find(signature)
    offset, size = one_of(rng, fields)
    if place >= 0:
        value = int(one_of(rng, [0, 1, 2**31 - 1, 2**32 - 1, 70_000, int(rng.integers(2**32))])) % 2 ** (8 * size)
        damaged[place + offset : place + offset + size] = value.to_bytes(size, "little")
    return bytes(damaged)


def _tar(rng: Rng, names: list[str], mode: str) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode=mode) as archive:  # type: ignore[call-overload]
        for name in names:
            info, content = tarfile.TarInfo(name or "nameless"), _content(rng)
            info.type = one_of(rng, _KINDS) if rng.random() < 0.3 else tarfile.REGTYPE
            info.size, info.linkname = len(content), "../../x"
            archive.addfile(info, io.BytesIO(content))
            if rng.random() < 0.1:  # a header that promises more than there is
                info.size = int(one_of(rng, [2**33, 10**6, 513]))
                archive.addfile(
                    info, io.BytesIO(bytes(info.size) if info.size < 10**7 else b"") if info.size < 10**7 else None
                )
    return stream.getvalue()


def archives(folder: Path) -> Iterator[Attacker]:
    def attack(rng: Rng) -> None:
        ending = one_of(rng, ["zip", "zip", *_MODES])
        names = [str(one_of(rng, _NAMES if rng.random() < 0.3 else _NAMES[:2])) + str(n) * (n % 2) for n in range(3)]
        content = _zip(rng, names) if ending == "zip" else _tar(rng, names, _MODES[ending])
        path = folder / f"own.{ending}"
        path.write_bytes(mutated(content, rng) if rng.random() < 0.4 else content)
        fingerprint(path)
        if rng.random() < 0.2:
            list(member_names(path))
        for name, found in read_members(path, lambda name: True, _LARGEST):
            parts = PurePosixPath(name.replace("\\", "/"))
            if parts.is_absolute() or ".." in parts.parts or len(found) > _LARGEST:
                raise NotANumber(f"{name[:40]!r} with {len(found)} bytes was let through")

    yield attack


def zipped_arrays(folder: Path) -> Iterator[Attacker]:
    """Compressed .npz files, and the idx.gz files of a data set."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 200, (12, 4)), np.arange(12) % 3
    stream = io.BytesIO()
    np.savez_compressed(stream, X=X, y=y)
    packed = stream.getvalue()
    parts = {}
    for part, points in (("train", 9), ("t10k", 6)):
        images = bytes([0, 0, 8, 3, 0, 0, 0, points, 0, 0, 0, 2, 0, 0, 0, 2]) + bytes(range(4 * points))
        labels = bytes([0, 0, 8, 1, 0, 0, 0, points]) + bytes(n % 3 for n in range(points))
        parts |= {f"{part}-images-idx3-ubyte.gz": images, f"{part}-labels-idx1-ubyte.gz": labels}
    for name, content in parts.items():
        (folder / name).write_bytes(gzip.compress(content, mtime=0))

    def npz(rng: Rng) -> None:
        path = folder / "own.npz"
        path.write_bytes(_with_false_header(packed, rng) if rng.random() < 0.5 else mutated(packed, rng))
        _check(data_tools.load(path))

    def idx(rng: Rng) -> None:
        name = one_of(rng, sorted(parts))
        content = parts[name]
        kind = int(rng.integers(4))
        packed = gzip.compress(mutated(content, rng) if kind == 0 else content, mtime=0)
        if kind == 1:  # a bomb behind what is expected
            packed = gzip.compress(content + bytes(5_000_000), mtime=0)
        elif kind == 2:
            packed = packed[: int(rng.integers(len(packed)))] + zlib.compress(content)
        elif kind == 3:
            packed = mutated(packed, rng)
        (folder / name).write_bytes(packed)
        try:
            _check(data_tools.load(folder))
        finally:
            (folder / name).write_bytes(gzip.compress(content, mtime=0))

    yield from (npz, idx)


def _check(found: Any) -> None:
    if not np.isfinite(np.asarray(found.X_train, dtype=float)).all() or len(found.X_train) != len(found.y_train):
        raise NotANumber("data that is no number")
