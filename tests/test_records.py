"""Files that survive a crash."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from nesi.errors import NesiError
from nesi.seeds import random_stream
from nesi.storage.arrays import load_arrays, save_arrays
from nesi.storage.records import (
    StorageError,
    about_unprotected,
    append_record,
    locked,
    read_records,
    remove_leftovers,
    repair_records,
    write_text,
    write_whole,
)

OLD_RECORD = {
    **dict.fromkeys(("labels", "run", "seed", "iterations", "n_train"), 1),
    **dict.fromkeys(("test_error", "log_likelihood", "seconds"), 1.5),
    **dict.fromkeys(("dataset", "network", "inference"), "a word"),
    "settings": {},
}
ARRAYS = {"W": np.arange(6.0, dtype=np.float32).reshape(2, 3), "iteration": np.array(7), "empty": np.zeros((0, 2))}


def test_records_come_back_in_order(tmp_path: Path) -> None:
    for run in range(3):
        append_record(tmp_path, {"run": run})
    assert [record["run"] for record in read_records(tmp_path)] == [0, 1, 2]


@pytest.mark.parametrize(
    "torn", [b'{"run": 2', b'{"run": 2}', b"\x00\x00\x00", b'{"run": 2, "checksum": "0123456789abcdef"}']
)
def test_a_torn_last_line_is_dropped_and_cut_off(tmp_path: Path, torn: bytes) -> None:
    append_record(tmp_path, {"run": 1})
    with open(tmp_path / "records.jsonl", "ab") as stream:
        stream.write(torn)
    assert [record["run"] for record in read_records(tmp_path)] == [1]
    repair_records(tmp_path)
    append_record(tmp_path, {"run": 3})
    assert [record["run"] for record in read_records(tmp_path)] == [1, 3]


def test_damage_in_the_middle_is_reported_with_its_line(tmp_path: Path) -> None:
    for damaged in ("nonsense", '{"run"', "null", "3", "{}", '{"run": 1, "x": NaN}', "[" * 200_000):
        (tmp_path / "records.jsonl").write_text(f"{json.dumps(OLD_RECORD)}\n{damaged}\n{json.dumps(OLD_RECORD)}\n")
        with pytest.raises(NesiError, match="line 2 is damaged"):
            read_records(tmp_path)
        (tmp_path / "records.jsonl").write_text(f"{json.dumps(OLD_RECORD)}\n{damaged}\n")  # whole, so not torn
        with pytest.raises(NesiError, match="line 2 is damaged"):
            repair_records(tmp_path)


def test_no_damaged_byte_of_a_record_goes_unnoticed(tmp_path: Path) -> None:
    for run in (1, 2, 3):
        append_record(tmp_path, {**OLD_RECORD, "run": run, "name": "\ud800 é"})
    path, written = tmp_path / "records.jsonl", read_records(tmp_path)
    content = path.read_bytes()
    ends = [position for position, byte in enumerate(content) if byte == ord("\n")]
    for position in range(ends[1]):  # the end of the last line may be torn
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        path.write_bytes(damaged)
        with pytest.raises(NesiError, match=rf"records.jsonl: line {1 + (position > ends[0])} is damaged"):
            read_records(tmp_path)
    path.write_bytes(content)
    assert read_records(tmp_path) == written
    assert about_unprotected([tmp_path]) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda line: line.replace(b'"}\n', b'", "x": 1}\n'),
        lambda line: line.replace(b'"checksum": "', b'"checksu": "'),
        lambda line: line.replace(b'{"', b'{"checksum": "0123456789abcdef", "', 1),
        lambda line: line + line,
    ],
    ids=["something behind it", "its name", "its place", "a line twice"],
)
def test_a_checksum_is_seen_wherever_it_is(tmp_path: Path, damage) -> None:
    append_record(tmp_path, OLD_RECORD)
    path = tmp_path / "records.jsonl"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(NesiError, match=r"line \d is damaged"):
        read_records(tmp_path)


def test_older_records_are_read_and_said_to_be_unprotected(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(OLD_RECORD) + "\n")
    append_record(tmp_path, {**OLD_RECORD, "run": 2})
    assert [record["run"] for record in read_records(tmp_path)] == [1, 2]
    assert "1 of 2 records come from an earlier version" in str(about_unprotected([tmp_path]))
    path.write_text(path.read_text() + json.dumps({**OLD_RECORD, "run": 3}) + "\n")
    with pytest.raises(NesiError, match="line 3 is damaged"):  # no version writes it after one with a checksum
        read_records(tmp_path)
    for key in OLD_RECORD:
        path.write_text(json.dumps({**OLD_RECORD, key: [1]}) + "\n")
        with pytest.raises(NesiError, match="line 1 is damaged"):
            read_records(tmp_path)


def test_a_failing_append_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append_record(tmp_path, {"run": 1})
    before = (tmp_path / "records.jsonl").read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device; make room and continue with --resume"):
        append_record(tmp_path, {"run": 2})
    monkeypatch.undo()
    assert (tmp_path / "records.jsonl").read_bytes() == before


def test_parts_that_nobody_is_writing_are_removed(tmp_path: Path) -> None:
    checkpoints = tmp_path / "checkpoints"
    checkpoints.mkdir()
    killed = (
        "import os, signal, sys; from pathlib import Path; from nesi.storage.records import write_whole\n"
        "write_whole(Path(sys.argv[1]), lambda stream: os.kill(os.getpid(), signal.SIGKILL))"
    )
    subprocess.run([sys.executable, "-c", killed, str(checkpoints / "r.npz")], check=False)
    (left,) = checkpoints.iterdir()
    assert left.suffix == ".part"
    seen = []

    def write(stream: IO[bytes]) -> None:
        remove_leftovers(tmp_path)
        seen.extend(checkpoints.iterdir())

    write_whole(checkpoints / "now.npz", write)
    assert len(seen) == 1  # our own, while it was written
    assert [path.name for path in checkpoints.iterdir()] == ["now.npz"]


def test_a_failing_write_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_text(tmp_path / "file", "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError):
        write_text(tmp_path / "file", "new")
    assert (tmp_path / "file").read_text() == "old"
    assert os.listdir(tmp_path) == ["file"]


def test_nan_is_never_written_into_a_record(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        append_record(tmp_path, {"run": 1, "x": float("nan")})


def test_the_lock_excludes_others_and_dies_with_its_process(tmp_path: Path) -> None:
    holder = "from pathlib import Path; from nesi.storage.records import locked; import sys\n"
    holder += f"with locked(Path({str(tmp_path)!r})):\n    print('held', flush=True)\n    sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", holder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    with pytest.raises(NesiError, match="in use by another"), locked(tmp_path):
        pass
    process.kill()
    process.communicate()
    with locked(tmp_path):
        pass


def test_arrays_round_trip_exactly(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", ARRAYS, {"run": 1})
    loaded = load_arrays(tmp_path / "a.npz", {"run": 1})
    assert set(loaded) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert loaded[name].dtype == np.asarray(array).dtype
        np.testing.assert_array_equal(loaded[name], array)


def test_python_objects_are_not_stored(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        save_arrays(tmp_path / "a.npz", {"x": np.array([{}])}, {})


def test_arrays_of_another_run_are_refused(tmp_path: Path) -> None:
    save_arrays(tmp_path / "a.npz", ARRAYS, {"run": 1})
    with pytest.raises(NesiError, match="another run"):
        load_arrays(tmp_path / "a.npz", {"run": 2})


def test_no_damaged_byte_goes_unnoticed(tmp_path: Path) -> None:
    """Every flipped bit either is in unused parts of the file or is refused; never are other numbers returned."""
    path = tmp_path / "a.npz"
    save_arrays(path, ARRAYS, {"run": 1})
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    for position in rng.choice(len(content), size=120, replace=False):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        try:
            loaded = load_arrays(path, {"run": 1})
        except NesiError:
            continue
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[name], array)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"not an archive"])
def test_files_that_are_no_archive_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(NesiError, match="damaged"):
        load_arrays(tmp_path / "a.npz")


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    save_arrays(path, ARRAYS, {})
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(NesiError):
            load_arrays(path)


def test_every_bit_of_the_zip_directory_may_be_damaged(tmp_path: Path) -> None:
    """Among them the bit that says that a member is encrypted, and the method of compression."""
    path = tmp_path / "a.npz"
    save_arrays(path, {"W": np.arange(3.0)}, {"run": 1})
    content = path.read_bytes()
    for start in (content.index(b"PK\x03\x04"), content.index(b"PK\x01\x02"), content.index(b"PK\x05\x06")):
        for position in range(start, min(start + 46, len(content))):
            for bit in range(8):
                damaged = bytearray(content)
                damaged[position] ^= 1 << bit
                path.write_bytes(damaged)
                try:
                    assert load_arrays(path, {"run": 1})["W"].tolist() == [0, 1, 2]
                except NesiError as error:
                    assert str(error).startswith(str(path))  # noqa: PT017  (most are harmless)


def test_sizes_are_checked_before_anything_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked = []
    monkeypatch.setattr(np.lib.format, "read_array", lambda *_, **__: unpacked.append(1))
    small = io.BytesIO()
    np.lib.format.write_array_header_1_0(small, {"descr": "<f8", "fortran_order": False, "shape": (10**12,)})
    np.savez_compressed(tmp_path / "compressed.npz", W=np.zeros(1_000_000))
    with zipfile.ZipFile(tmp_path / "shape.npz", "w") as archive:
        archive.writestr("W.npy", small.getvalue())
    for name in ("compressed.npz", "shape.npz"):
        with pytest.raises(NesiError, match=f"{name}: damaged or not written by NeSi"):
            load_arrays(tmp_path / name)
    assert not unpacked


def test_a_pickle_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.array([{}], dtype=object))
    with pytest.raises(NesiError):
        load_arrays(tmp_path / "a.npz")


def test_streams_depend_on_purpose_and_seed_only() -> None:
    first = random_stream(1, "labels", "mnist", 100, 3).random(4)
    np.testing.assert_array_equal(first, random_stream(1, "labels", "mnist", 100, 3).random(4))
    for other in (random_stream(2, "labels", "mnist", 100, 3), random_stream(1, "labels", "mnist", 1003)):
        assert not np.array_equal(first, other.random(4))
