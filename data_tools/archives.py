"""Reading a folder, a .zip or a .tar (gz, bz2, xz) the same way, without unpacking anything to disk.

Names inside an archive are only ever used as labels: they are checked, never joined to a path that is written to.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from data_tools import zip_stream
from data_tools.errors import DataError

#: What the standard library raises for a broken archive.
_BROKEN = (
    tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, ValueError, KeyError,
    IndexError, zip_stream.BadZip, NotImplementedError, RuntimeError, OverflowError, MemoryError,
)  # fmt: skip
_LARGEST_MEMBER = 1 << 31


def is_archive(path: Path) -> bool:
    return path.is_file() and path.name.lower().endswith((".zip", ".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tar.xz"))


def member_names(source: Path) -> Iterator[str]:
    """Names of all regular files in the source, in its own order; for a folder sorted, relative, with `/`."""
    if source.is_dir():
        yield from _files_below(source)
        return
    with _reporting(source):
        if zipfile.is_zipfile(source):
            with source.open("rb") as stream:
                for member in zip_stream.members(stream):
                    _check_name(source, member.name)
                    if not member.is_folder:
                        yield member.name
            return
        with tarfile.open(source) as tar:
            for info in _tar_files(source, tar):
                yield info.name


def read_members(
    source: Path, wanted: Callable[[str], bool], largest: int = _LARGEST_MEMBER
) -> Iterator[tuple[str, bytes]]:
    """Name and content of every wanted file, one at a time, in the order of the source."""
    if source.is_dir():
        for name in member_names(source):
            if wanted(name):
                yield name, _read_file(source / name, largest)
        return
    with _reporting(source):
        if zipfile.is_zipfile(source):
            with source.open("rb") as stream:
                for member in zip_stream.members(stream):
                    _check_name(source, member.name)
                    if not member.is_folder and wanted(member.name):
                        yield member.name, zip_stream.read(stream, member, largest)
            return
        with tarfile.open(source) as tar:
            for info in _tar_files(source, tar):
                if wanted(info.name):
                    content_stream = tar.extractfile(info)
                    assert content_stream is not None  # it is a regular file
                    content = _bounded(content_stream, largest, source, info.name)
                    if len(content) != info.size:
                        raise DataError(f"{source}: member {info.name} is truncated; download the archive again.")
                    yield info.name, content


def _files_below(folder: Path, prefix: str = "") -> Iterator[str]:
    """In the order of all sorted paths, but with only the names of one folder in memory at a time."""
    try:
        with os.scandir(folder) as entries:
            # The slash counts in the order: in sorted paths `a.png` comes before `a/b.png`.
            # Links to folders are not followed: they could lead out of the tree or in circles.
            names = sorted(
                entry.name + "/" if entry.is_dir() else entry.name
                for entry in entries
                if not (entry.is_symlink() and entry.is_dir())
            )
    except OSError as error:
        raise DataError(f"{folder} cannot be read ({error}); check the folder and its permissions.") from error
    for name in names:
        if name.endswith("/"):
            yield from _files_below(folder / name, prefix + name)
        else:
            yield prefix + name


def _tar_files(source: Path, tar: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for info in tar:
        tar.members = []  # type: ignore[attr-defined]  # otherwise tarfile keeps 1 KB per image
        _check_name(source, info.name)
        if info.isfile():
            yield info
        elif not info.isdir():
            raise DataError(
                f"{source}: member {info.name} is a link or a device, expected files and folders only; "
                f"do not use this archive."
            )


def read_member(source: Path, name: str) -> bytes:
    """One file of the source."""
    for _, content in read_members(source, lambda candidate: candidate == name):
        return content
    raise DataError(f"{source} has no member {name}; download the archive again.")


def fingerprint(source: Path) -> str:
    """A digest that changes with the content: all bytes of an archive; names, sizes and times in a folder."""
    digest = hashlib.sha256()
    with _reporting(source):
        if source.is_dir():
            for name in member_names(source):
                status = (source / name).stat()
                digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
        else:
            with source.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


@contextmanager
def _reporting(source: Path) -> Iterator[None]:
    """Turn any error about a broken archive into one sentence that names the file."""
    try:
        yield
    except DataError:
        raise
    except _BROKEN as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{source} cannot be read as an archive ({reason}); download it again.") from error


def _check_name(source: Path, name: str) -> None:
    path = PurePosixPath(name.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or "\0" in name or (path.parts and path.parts[0].endswith(":")):
        raise DataError(
            f"{source}: member {name!r} points outside the archive; nothing was written, do not use this file."
        )


def _read_file(path: Path, largest: int) -> bytes:
    try:
        with path.open("rb") as stream:
            return _bounded(stream, largest, path.parent, path.name)
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error}); check the file and its permissions.") from error


def _bounded(stream: IO[bytes], largest: int, source: Path, name: str) -> bytes:
    """The whole stream, unless it is larger than anything we expect (a decompression bomb)."""
    content = bytearray()
    while piece := stream.read(1 << 16):
        content += piece
        if len(content) > largest:
            raise DataError(f"{source}: {name} unpacks to more than {largest} bytes; do not use this file.")
    return bytes(content)
