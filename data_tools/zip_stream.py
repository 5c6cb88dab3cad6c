"""Read a .zip one member at a time, in constant memory.

Python's zipfile keeps about 0.6 KB per member; NIST's by_class.zip has over a million members, so that is more than the
images themselves. Only features used by public data archives are supported: stored or deflated members, zip64, no
encryption, one volume.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

_END = struct.Struct("<4s4H2LH")
_END64_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 0xFFFF
_ASK_ZIP64 = 0xFFFFFFFF
_STORED, _DEFLATED = 0, 8
_ENCRYPTED, _UTF8 = 0x1, 0x800


class BadZip(Exception):
    """Why the archive, or one of its members, cannot be read."""


class Member(NamedTuple):
    name: str
    method: int
    flags: int
    checksum: int
    packed_size: int
    size: int
    offset: int

    @property
    def is_folder(self) -> bool:
        return self.name.endswith("/")


def members(stream: IO[bytes]) -> Iterator[Member]:
    """The members in the order of the archive's directory."""
    count, start = _directory(stream)
    position = start
    for _ in range(count):
        # Always seek: the caller may have read from the same stream in between.
        stream.seek(position)
        fields = _unpack(_ENTRY, stream, b"PK\x01\x02")
        flags, method = fields[3], fields[4]
        checksum, packed_size, size = fields[7], fields[8], fields[9]
        name_length, extra_length, comment_length, offset = fields[10], fields[11], fields[12], fields[16]
        name = _read(stream, name_length).decode("utf-8" if flags & _UTF8 else "cp437", errors="replace")
        extra = _read(stream, extra_length)
        size, packed_size, offset = _zip64_values(extra, [size, packed_size, offset])
        yield Member(name, method, flags, checksum, packed_size, size, offset)
        position += _ENTRY.size + name_length + extra_length + comment_length


def read(stream: IO[bytes], member: Member, largest: int) -> bytes:
    """The content of one member, at most `largest` bytes of it, checked against its checksum."""
    if member.flags & _ENCRYPTED:
        raise BadZip(f"{member.name} is encrypted")
    if max(member.size, member.packed_size) > largest:
        raise BadZip(f"{member.name} unpacks to more than {largest} bytes")
    stream.seek(member.offset)
    local = _unpack(_LOCAL, stream, b"PK\x03\x04")
    stream.seek(local[9] + local[10], os.SEEK_CUR)
    packed = _read(stream, member.packed_size)
    if member.method == _STORED:
        content = packed
    elif member.method == _DEFLATED:
        unpacker = zlib.decompressobj(-zlib.MAX_WBITS)
        content = unpacker.decompress(packed, largest + 1)
        if len(content) > largest:
            raise BadZip(f"{member.name} unpacks to more than {largest} bytes")
    else:
        raise BadZip(f"{member.name} is compressed with an unknown method ({member.method})")
    if len(content) != member.size or zlib.crc32(content) != member.checksum:
        raise BadZip(f"{member.name} is damaged (wrong checksum)")
    return content


def _directory(stream: IO[bytes]) -> tuple[int, int]:
    """Number of members and position of the directory."""
    stream.seek(0, os.SEEK_END)
    length = stream.tell()
    tail_start = max(0, length - _END.size - _LONGEST_COMMENT)
    stream.seek(tail_start)
    tail = stream.read()
    found = tail.rfind(b"PK\x05\x06")
    if found < 0 or found + _END.size > len(tail):
        raise BadZip("it has no directory")
    end = tail_start + found
    _, disk, directory_disk, _, count, size, start, _ = _END.unpack_from(tail, found)
    if disk != directory_disk:
        raise BadZip("it is one of several volumes")
    locator_position = end - _END64_LOCATOR.size
    if (count == 0xFFFF or _ASK_ZIP64 in (size, start)) and locator_position >= 0:
        stream.seek(locator_position)
        if stream.read(4) == b"PK\x06\x07":
            stream.seek(locator_position)
            stream.seek(_unpack(_END64_LOCATOR, stream, b"PK\x06\x07")[2])
            fields = _unpack(_END64, stream, b"PK\x06\x06")
            count, size, start = fields[7], fields[8], fields[9]
    if start + size > length or count * _ENTRY.size > size:
        raise BadZip("its directory is damaged")
    return count, start


def _zip64_values(extra: bytes, values: list[int]) -> list[int]:
    """Size, packed size and offset, from the zip64 field where 32 bits were not enough."""
    position = 0
    while position + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, position)
        if kind == 0x0001:
            numbers = iter(struct.iter_unpack("<Q", extra[position + 4 : position + 4 + length // 8 * 8]))
            return [next(numbers, (value,))[0] if value == _ASK_ZIP64 else value for value in values]
        position += 4 + length
    return values


def _unpack(form: struct.Struct, stream: IO[bytes], signature: bytes) -> tuple[int, ...]:
    fields = form.unpack(_read(stream, form.size))
    if fields[0] != signature:
        raise BadZip("a header is damaged")
    return fields


def _read(stream: IO[bytes], size: int) -> bytes:
    content = stream.read(size)
    if len(content) != size:
        raise BadZip("it ends too early")
    return content
