"""Download one file: try mirrors in turn, resume interrupted transfers, and never leave a partial file in place.

pooch checks archives and handles protocol details; the downloader below adds resuming to it.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import shutil
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pooch
import requests
from tqdm import tqdm

from data_tools.errors import DataError
from data_tools.sources import RemoteFile

_TIMEOUT = (10, 60)  # seconds to connect, and between two chunks
_ATTEMPTS = 4
#: Small, because the last chunk before a broken connection is lost.
_CHUNK = 1 << 13


class IncompleteTransfer(Exception):
    """The connection ended before the file did."""


def download(
    remote: RemoteFile, target: Path, progress: bool = True, validate: Callable[[Path], None] | None = None
) -> str:
    """Put the file at `target` once it is complete and correct; returns the address it came from.

    `validate` may raise DataError for a file that has no known checksum but is clearly the wrong one.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    reasons = []
    for url in remote.urls:
        try:
            arrived = _retrieve(remote, url, target, progress)
            check_content(arrived, remote)
            if validate is not None:
                validate(arrived)
        except (OSError, ValueError, IncompleteTransfer, requests.RequestException) as error:
            reasons.append(f"{urlsplit(url).netloc}: {_short(error)}")
            continue
        os.replace(arrived, target)
        return url
    (target.parent / _hidden_name(target)).unlink(missing_ok=True)
    raise DataError(f"{remote.name} could not be downloaded ({', '.join(reasons)})")


def _hidden_name(target: Path) -> str:
    return f".{target.name}.arrived"


def _retrieve(remote: RemoteFile, url: str, target: Path, progress: bool) -> Path:
    """The file as downloaded, checked against the archive checksum if there is one, under a hidden name."""
    pooch.get_logger().setLevel(logging.ERROR)  # pooch would print every download and its checksum
    hidden = _hidden_name(target)
    (target.parent / hidden).unlink(missing_ok=True)
    # Only resume a file that will be checked: the existing part could be from another version.
    checked = remote.archive_hash is not None or remote.content_sha256 is not None
    downloader = ResumingDownloader(target.parent / f".{target.name}.part", resume=checked, progress=progress)
    for is_last in (False, True):
        try:
            arrived = pooch.retrieve(url, remote.archive_hash, fname=hidden, path=target.parent, downloader=downloader)
            return Path(arrived)
        except ValueError:
            # A wrong checksum. If the beginning was left over from an earlier attempt, start once from scratch.
            if is_last or not downloader.resumed:
                raise
    raise AssertionError("unreachable")


class ResumingDownloader:
    """A pooch downloader that keeps what has arrived in a `.part` file and asks the server for the rest."""

    def __init__(self, part: Path, resume: bool, progress: bool) -> None:
        self.part, self.progress = part, progress
        self.resumed = False
        if not resume:
            part.unlink(missing_ok=True)

    def __call__(self, url: str, output_file: str, pooch: object, check_only: bool = False) -> None:
        self.resumed = self.part.exists() and self.part.stat().st_size > 0
        for attempt in range(_ATTEMPTS):
            before = self.part.stat().st_size if self.part.exists() else 0
            try:
                self._transfer(url)
                break
            except (IncompleteTransfer, requests.ConnectionError, requests.Timeout) as error:
                # Only try again while the server answers and something arrives.
                after = self.part.stat().st_size if self.part.exists() else 0
                if attempt == _ATTEMPTS - 1 or after == before:
                    raise IncompleteTransfer(f"broke off after {after} bytes" if after else _short(error)) from error
        shutil.move(self.part, output_file)

    def _transfer(self, url: str) -> None:
        have = self.part.stat().st_size if self.part.exists() else 0
        # "identity": a server that compresses on the fly would make byte ranges and sizes meaningless.
        headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with requests.get(url, headers=headers, stream=True, timeout=_TIMEOUT) as response:
            if have and response.status_code == 416:  # nothing left to send: we have it all, or an older, longer file
                return
            response.raise_for_status()
            continues = response.status_code == 206
            total = (have if continues else 0) + int(response.headers.get("Content-Length", 0))
            with self.part.open("ab" if continues else "wb") as stream:
                self._copy(response, stream, total, have if continues else 0)
            size = self.part.stat().st_size
        if total and size < total and "Content-Length" in response.headers:
            raise IncompleteTransfer(f"{size} of {total} bytes")

    def _copy(self, response: requests.Response, stream: object, total: int, start: int) -> None:
        silent = not self.progress or not sys.stderr.isatty()
        name = self.part.name.removeprefix(".").removesuffix(".part")
        with tqdm(total=total or None, initial=start, desc=name, unit="B", unit_scale=True, disable=silent) as bar:
            try:
                for piece in response.iter_content(_CHUNK):
                    stream.write(piece)  # type: ignore[attr-defined]
                    bar.update(len(piece))
            except requests.exceptions.ChunkedEncodingError as error:
                raise IncompleteTransfer(str(error)) from error


def check_content(path: Path, remote: RemoteFile) -> None:
    """Raise and remove the file unless its unpacked content has the right checksum."""
    if remote.content_sha256 is None:
        return
    try:
        found = content_sha256(path)
    except DataError:
        path.unlink(missing_ok=True)
        raise
    if found != remote.content_sha256:
        path.unlink(missing_ok=True)
        raise DataError(
            f"the content has SHA-256 {found[:16]}..., expected {remote.content_sha256[:16]}...: it is a different file"
        )


def content_sha256(path: Path) -> str:
    """SHA-256 of a file after unpacking gzip, if it is gzipped."""
    digest = hashlib.sha256()
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path) if zipped else path.open("rb") as stream:
            while piece := stream.read(1 << 20):
                digest.update(piece)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is damaged ({error}); download it again.") from error
    return digest.hexdigest()


def _short(error: Exception) -> str:
    """The cause of a nested network error, in one line."""
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "timed out"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return str(error).splitlines()[0][:200] if str(error) else type(error).__name__
