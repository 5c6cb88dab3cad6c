"""One file over real HTTP: checksums, mirrors, resuming, and nothing half written."""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from local_mirror import LocalMirror, running_mirror

from data_tools import DataError
from data_tools.download import content_sha256, download
from data_tools.sources import SOURCES, RemoteFile

CONTENT = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
SHA256 = hashlib.sha256(CONTENT).hexdigest()
PIECE = 8192
NOWHERE = "http://127.0.0.1:9"  # nobody listens on the discard port


@pytest.fixture
def mirror() -> Iterator[LocalMirror]:
    with running_mirror() as server:
        server.files["/data.bin"] = CONTENT
        yield server


@pytest.fixture
def second_mirror() -> Iterator[LocalMirror]:
    with running_mirror() as server:
        server.files["/data.bin"] = CONTENT
        yield server


def remote(*bases: str, archive_hash: str | None = f"sha256:{SHA256}", content: str | None = None) -> RemoteFile:
    return RemoteFile("data.bin", tuple(f"{base}/data.bin" for base in bases), archive_hash, content)


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_right_file_arrives(mirror: LocalMirror, tmp_path: Path) -> None:
    assert download(remote(mirror.url), tmp_path / "data.bin") == f"{mirror.url}/data.bin"
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["data.bin"]


@pytest.mark.parametrize("first", ["down", "error", "missing", "wrong"])
def test_the_second_mirror_is_used_when_the_first_fails(
    mirror: LocalMirror, second_mirror: LocalMirror, tmp_path: Path, first: str
) -> None:
    if first == "error":
        mirror.status = 503
    if first == "missing":
        mirror.files.clear()
    if first == "wrong":
        mirror.files["/data.bin"] = b"<html>this mirror has moved</html>"
    address = NOWHERE if first == "down" else mirror.url
    assert download(remote(address, second_mirror.url), tmp_path / "data.bin").startswith(second_mirror.url)
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["data.bin"]


def test_a_broken_transfer_is_taken_up_where_it_stopped(mirror: LocalMirror, tmp_path: Path) -> None:
    mirror.cut_after = [12 * PIECE, 6 * PIECE + 5]
    download(remote(mirror.url), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert [asked for _, asked in mirror.requests] == [
        None,
        f"bytes={12 * PIECE}-",
        f"bytes={18 * PIECE}-",
    ]


def test_an_interrupted_download_goes_on_at_the_next_start(mirror: LocalMirror, tmp_path: Path) -> None:
    mirror.cut_after = [PIECE] * 4
    with pytest.raises(DataError, match="broke off after 32768 bytes"):
        download(remote(mirror.url), tmp_path / "data.bin")
    assert names_in(tmp_path) == [".data.bin.part"]
    download(remote(mirror.url), tmp_path / "data.bin")
    assert mirror.requests[-1][1] == "bytes=32768-"
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert names_in(tmp_path) == ["data.bin"]


def test_a_server_without_ranges_starts_over(mirror: LocalMirror, tmp_path: Path) -> None:
    mirror.ranges = False
    mirror.cut_after = [100_000]
    download(remote(mirror.url), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_left_over_part_of_another_version_gets_a_fresh_start(mirror: LocalMirror, tmp_path: Path) -> None:
    (tmp_path / ".data.bin.part").write_bytes(b"older version" * 100)
    download(remote(mirror.url), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT
    assert mirror.requests[-1][1] is None


def test_a_left_over_part_that_is_too_long_gets_a_fresh_start(mirror: LocalMirror, tmp_path: Path) -> None:
    (tmp_path / ".data.bin.part").write_bytes(CONTENT + b"more")
    download(remote(mirror.url), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_without_a_checksum_nothing_is_taken_up(mirror: LocalMirror, tmp_path: Path) -> None:
    (tmp_path / ".data.bin.part").write_bytes(b"who knows")
    download(remote(mirror.url, archive_hash=None), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_nothing_behind(mirror: LocalMirror, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"what was there before")
    mirror.files["/data.bin"] = CONTENT[:-1] + b"x"
    with pytest.raises(DataError, match=r"data.bin could not be downloaded \(127.0.0.1"):
        download(remote(mirror.url), tmp_path / "data.bin")
    assert (tmp_path / "data.bin").read_bytes() == b"what was there before"
    assert names_in(tmp_path) == ["data.bin"]


def test_content_is_checked_whatever_it_is_packed_with(mirror: LocalMirror, tmp_path: Path) -> None:
    for level in (1, 9):
        mirror.files["/data.bin"] = gzip.compress(CONTENT, level)
        download(remote(mirror.url, archive_hash=None, content=SHA256), tmp_path / "data.bin")
        assert content_sha256(tmp_path / "data.bin") == SHA256
    for wrong in (gzip.compress(CONTENT[1:]), gzip.compress(CONTENT)[:-20], b""):
        mirror.files["/data.bin"] = wrong
        (tmp_path / "data.bin").unlink(missing_ok=True)
        with pytest.raises(DataError):
            download(remote(mirror.url, archive_hash=None, content=SHA256), tmp_path / "data.bin")
        assert names_in(tmp_path) == []


def test_every_data_set_has_two_public_sources() -> None:
    for source in SOURCES.values():
        for file in source.files:
            assert len(file.urls) >= 2
            assert len({url.split("/")[2] for url in file.urls}) >= 2
