"""The idx reader, and what it says about files that are not what they should be."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_files import idx_bytes, reporting_only_data_errors, write_idx

from data_tools import DataError
from data_tools.idx import read_idx, read_idx_file

IMAGES = np.arange(4 * 3 * 5, dtype=np.uint8).reshape(4, 3, 5)


@pytest.mark.parametrize("name", ["images-idx3-ubyte", "images.idx3-ubyte.gz"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    assert np.array_equal(read_idx_file(write_idx(tmp_path / name, IMAGES), 3), IMAGES)


def test_gzip_is_told_by_content_not_by_name(tmp_path: Path) -> None:
    path = tmp_path / "images-idx3-ubyte"
    path.write_bytes(gzip.compress(idx_bytes(IMAGES)))
    assert np.array_equal(read_idx_file(path, 3), IMAGES)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "ends after 0 bytes"),
        (idx_bytes(IMAGES)[:9], "inside the idx header"),
        (idx_bytes(IMAGES)[:-1], "truncated: 59 of 60"),
        (idx_bytes(IMAGES) + b"x", "longer than its header"),
        (b"\x89PNG" + idx_bytes(IMAGES)[4:], "starts with 89504e47"),
        (idx_bytes(np.arange(5)), "expected 00000803"),
        (bytes([0, 0, 8, 3]) + bytes(12), "empty"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12 + b"data", "truncated: 4 of"),
        (gzip.compress(idx_bytes(IMAGES), mtime=0)[:-9], "damaged gzip"),
        (b"\x1f\x8b" + b"nonsense" * 5, "damaged gzip"),
    ],
)
def test_damage_is_named_with_the_file(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "broken-idx3-ubyte"
    path.write_bytes(content)
    with pytest.raises(DataError, match=reason) as caught:
        read_idx_file(path, 3)
    assert str(path) in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere"):
        read_idx_file(tmp_path / "nowhere", 3)


@settings(max_examples=300, deadline=None)
@given(st.data(), st.booleans())
def test_random_damage_gives_an_array_or_the_modules_own_error(data: st.DataObject, zipped: bool) -> None:
    content = bytearray(gzip.compress(idx_bytes(IMAGES), mtime=0) if zipped else idx_bytes(IMAGES))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(content)))
    with reporting_only_data_errors("fuzzed"):
        assert read_idx(io.BytesIO(bytes(content[:cut])), "fuzzed", 3).dtype == np.uint8
