"""The streaming zip reader against Python's own."""

from __future__ import annotations

import io
import tracemalloc
import zipfile

import pytest

from data_tools import zip_stream
from data_tools.zip_stream import BadZip


def make(contents: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED, comment: bytes = b"") -> io.BytesIO:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        archive.comment = comment
        for name, content in contents.items():
            archive.writestr(name, content)
    return stream


CONTENTS = {"a/": b"", "a/one.txt": b"one" * 1000, "a/ü.txt": b"", "b.bin": bytes(range(256))}


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("comment", [b"", b"PK\x05 a comment" * 50])
def test_all_members_are_read_as_by_zipfile(method: int, comment: bytes) -> None:
    stream = make(CONTENTS, method, comment)
    read = {member.name: zip_stream.read(stream, member, 10**6) for member in zip_stream.members(stream)}
    assert read == CONTENTS
    assert [member.name for member in zip_stream.members(stream) if member.is_folder] == ["a/"]


def test_more_members_than_sixteen_bits_count_take_hardly_any_memory() -> None:
    stream = make({f"by_class/30/hsf_0/hsf_0_{i:05d}.png": b"" for i in range(66_000)}, zipfile.ZIP_STORED)
    tracemalloc.start()
    assert sum(1 for _ in zip_stream.members(stream)) == 66_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000  # zipfile itself takes some 40 MB here


def test_a_file_streamed_with_zip64_sizes_is_read() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive, archive.open("big", "w", force_zip64=True) as member:
        member.write(b"not so big")
    (only,) = zip_stream.members(stream)
    assert zip_stream.read(stream, only, 100) == b"not so big"


def test_what_cannot_be_read_is_said() -> None:
    stream = make(CONTENTS, zipfile.ZIP_LZMA)
    members = {member.name: member for member in zip_stream.members(stream)}
    with pytest.raises(BadZip, match="unknown method"):
        zip_stream.read(stream, members["b.bin"], 10**6)
    with pytest.raises(BadZip, match="more than 10 bytes"):
        zip_stream.read(stream, members["b.bin"], 10)
    with pytest.raises(BadZip, match="encrypted"):
        zip_stream.read(stream, members["b.bin"]._replace(flags=1), 10**6)
    with pytest.raises(BadZip, match="no directory"):
        list(zip_stream.members(io.BytesIO(b"nothing")))


def test_a_member_that_lies_about_its_size_is_refused() -> None:
    stream = make({"bomb": bytes(1_000_000)})
    (bomb,) = zip_stream.members(stream)
    with pytest.raises(BadZip, match="more than 1000 bytes"):
        zip_stream.read(stream, bomb._replace(size=10), 1000)
    with pytest.raises(BadZip, match="wrong checksum"):
        zip_stream.read(stream, bomb._replace(checksum=1), 10**7)
