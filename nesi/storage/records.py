"""Files that survive a crash: one line per finished run, whole files or none, one writer per directory."""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from nesi.errors import NesiError

Record = dict[str, Any]
RECORDS = "records.jsonl"

Keys = Mapping[str, Any]  # the names of entries and their types
RECORD_KEYS: Keys = {
    **dict.fromkeys(("dataset", "network", "inference"), str),
    **dict.fromkeys(("labels", "run", "seed", "iterations", "n_train"), int),
    **dict.fromkeys(("log_likelihood", "seconds"), (int, float)),
    "test_error": (int, float, type(None)),
    "settings": dict,
}
_CHECKSUM, _DIGITS = "checksum", 16


class StorageError(NesiError):
    """The disk does not take what has to be written; nothing that was written before is lost."""


@contextlib.contextmanager
def storing(path: Path) -> Iterator[None]:
    """Turn a failing write into a sentence that says what to do."""
    try:
        yield
    except OSError as error:
        remedy = {
            errno.ENOSPC: "make room and continue with --resume",
            errno.EDQUOT: "make room and continue with --resume",
            errno.EACCES: "check the permissions or choose another --out",
            errno.EROFS: "choose another --out",
        }.get(error.errno or 0, "fix this and continue with --resume")
        reason = error.strerror or type(error).__name__
        raise StorageError(f"cannot write {path}: {reason}; {remedy}.") from None


def write_whole(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Write the file completely or not at all: a reader sees the old content or the new one, never a part."""
    with storing(path):
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".part")
        try:
            with os.fdopen(descriptor, "wb") as stream:
                fcntl.flock(stream, fcntl.LOCK_EX)  # ours, as `remove_leftovers` can see
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
            os.chmod(temporary, 0o666 & ~_umask())  # mkstemp makes files that nobody else may read
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _sync_directory(path.parent)


def remove_leftovers(directory: Path) -> None:
    """Parts of files whose writer was killed, anywhere below the directory; what somebody is writing now stays."""
    for path in directory.rglob(".*.part"):
        with contextlib.suppress(OSError), open(path, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode("utf-8"))


def write_bytes(path: Path, content: bytes) -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(content)

    write_whole(path, write)


def make_directory(path: Path) -> None:
    with storing(path):
        path.mkdir(parents=True, exist_ok=True)


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Be the only program that writes to `directory`. The lock ends with the process, even by kill -9."""
    path = directory / ".lock"
    with storing(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise NesiError(
                f"{directory} is in use by another run_experiment.py or labeling page; "
                "wait for it to end or choose another directory."
            ) from None
        except OSError as error:
            raise NesiError(f"{directory} cannot be locked ({error.strerror}); choose another --out.") from None
        yield
    finally:
        os.close(descriptor)


def read_records(directory: Path) -> list[Record]:
    """The finished runs of a directory; a last line that a crash has torn is left out."""
    return _parse(directory / RECORDS, RECORD_KEYS).records


def about_unprotected(directories: Sequence[Path]) -> str | None:
    """A sentence about records of earlier versions, which have no checksum; None if there are none."""
    found = [_parse(directory / RECORDS, RECORD_KEYS) for directory in directories]
    unprotected, records = sum(lines.unprotected for lines in found), sum(len(lines.records) for lines in found)
    if not unprotected:
        return None
    return (
        f"{unprotected} of {records} records come from an earlier version and have no checksum, so that damage to them "
        "can go unnoticed."
    )


def repair_records(directory: Path, file: str = RECORDS, needed: Keys = RECORD_KEYS) -> list[Record]:
    """As `read_records`, and cut a torn last line off, so that the next record starts on a line of its own.

    `needed`: what a record without a checksum must at least hold.
    """
    path = directory / file
    found = _parse(path, needed)
    if path.exists() and path.stat().st_size != found.intact:
        with storing(path), open(path, "r+b") as stream:
            stream.truncate(found.intact)
            os.fsync(stream.fileno())
    return found.records


def append_record(directory: Path, record: Record, file: str = RECORDS) -> None:
    """Add one line, durably: when this returns, the record survives a power cut."""
    path = directory / file
    line = _with_checksum(json.dumps(record, allow_nan=False).encode("utf-8"))
    with storing(path):
        is_new = not path.exists()
        with open(path, "ab", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            try:
                view = memoryview(line)
                while view:
                    view = view[stream.write(view) :]
                os.fsync(stream.fileno())
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(stream.fileno(), size)
                raise
        if is_new:
            _sync_directory(directory)


def read_what_is_left(path: Path, needed: Keys) -> list[Record]:
    """Every line, an empty record for one that is damaged."""
    return _parse(path, needed, tolerant=True).records


def replace_records(path: Path, records: list[Record]) -> None:
    """Write the file again, whole or not at all."""
    lines = [_with_checksum(json.dumps(record, allow_nan=False).encode("utf-8")) for record in records]

    def write(stream: IO[bytes]) -> None:
        stream.writelines(lines)

    write_whole(path, write)


# ---- lines and their checksums -----------------------------------------------------------------------------------


class _Lines(NamedTuple):
    records: list[Record]
    intact: int  # bytes up to a line that a crash has torn
    unprotected: int  # records of earlier versions


def _parse(path: Path, needed: Keys, tolerant: bool = False) -> _Lines:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return _Lines([], 0, 0)
    except OSError as error:
        raise NesiError(f"{path}: cannot be read ({error.strerror}).") from None
    records: list[Record] = []
    protected = start = 0
    seen: set[bytes] = set()
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        if start + len(line) == len(content) and not line.endswith(b"\n"):  # torn by a crash while it was written
            break
        record, has_checksum = _read_line(line, needed)
        # An earlier version wrote no checksums; once there is one, all that follow have one. No line is there twice.
        if record is None or (protected and not has_checksum) or line in seen:
            if not tolerant:
                raise NesiError(f"{path}: line {number} is damaged; restore it, or remove it to repeat that run.")
            record = {}
        seen.add(line)
        protected += has_checksum
        records.append(record)
        start += len(line)
    return _Lines(records, start, len(records) - protected)


def _with_checksum(body: bytes) -> bytes:
    """One line: the record as JSON, with the checksum of all its bytes as the last entry."""
    separator = b", " if body != b"{}" else b""
    return body[:-1] + separator + f'"{_CHECKSUM}": "{_checksum(body)}"}}\n'.encode()


def _read_line(line: bytes, needed: Keys) -> tuple[Record | None, bool]:
    """The record, None if it is damaged, and whether it has a checksum."""
    try:
        record = json.loads(line, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None, False
    if not isinstance(record, dict) or not record:
        return None, False
    key, value = list(record.items())[-1]
    # A checksum is still to be seen as one when it, its name or its place is damaged.
    if _CHECKSUM in record or (isinstance(value, str) and len(value) == _DIGITS):
        del record[key]
        body = json.dumps(record).encode("utf-8")
        return (record if line == _with_checksum(body) else None), True
    complete = all(isinstance(record.get(name), kinds) for name, kinds in needed.items())
    return (record if complete else None), False


def _checksum(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()[:_DIGITS]


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number")


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
