"""Files that survive a crash: one line per finished run, whole files or none, one writer per directory."""

import contextlib
import errno
import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from nesi.errors import NesiError

Record = dict[str, Any]
RECORDS = "records.jsonl"


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


def write_text(path: Path, text: str) -> None:
    def write(stream: IO[bytes]) -> None:
        stream.write(text.encode("utf-8"))

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
    records, _ = _parse(directory / RECORDS)
    return records


def repair_records(directory: Path, file: str = RECORDS) -> list[Record]:
    """As `read_records`, and cut a torn last line off, so that the next record starts on a line of its own."""
    path = directory / file
    records, intact = _parse(path)
    if path.exists() and path.stat().st_size != intact:
        with storing(path), open(path, "r+b") as stream:
            stream.truncate(intact)
            os.fsync(stream.fileno())
    return records


def append_record(directory: Path, record: Record, file: str = RECORDS) -> None:
    """Add one line, durably: when this returns, the record survives a power cut."""
    path = directory / file
    line = (json.dumps(record, allow_nan=False) + "\n").encode("utf-8")
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


def _parse(path: Path) -> tuple[list[Record], int]:
    """The records and the number of bytes that hold them."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return [], 0
    except OSError as error:
        raise NesiError(f"{path}: cannot be read ({error.strerror}).") from None
    records: list[Record] = []
    start = 0
    for number, line in enumerate(content.splitlines(keepends=True), start=1):
        end = start + len(line)
        try:
            record = json.loads(line)
            complete = line.endswith(b"\n") and isinstance(record, dict) and "run" in record
        except ValueError:
            complete = False
        if not complete:
            if end == len(content):  # the last line: torn by a crash while it was written
                return records, start
            raise NesiError(f"{path}: line {number} is not a record; the file is damaged, restore or remove that line.")
        records.append(record)
        start = end
    return records, start


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
