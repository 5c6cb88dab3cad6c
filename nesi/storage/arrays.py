"""Arrays on disk: trained weights, details of a run, and checkpoints. Plain npz, no pickles, checked before use."""

import hashlib
import json
import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.storage.records import write_whole

FORMAT = 1
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
Arrays = dict[str, np.ndarray]


def digest(arrays: Arrays) -> str:
    """SHA-256 of names, types, shapes and bytes."""
    sha = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        sha.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        sha.update(array.data if array.size else b"")
    return sha.hexdigest()


def save_arrays(path: Path, arrays: Arrays, about: dict[str, Any]) -> None:
    """Write `arrays` with a description of what they are; whole or not at all."""
    plain = {name: np.asarray(array) for name, array in arrays.items()}
    for name, array in plain.items():
        if array.dtype.hasobject:
            raise TypeError(f"{name} holds Python objects; only plain arrays are stored")
    header = {"format": FORMAT, "about": about, "sha256": digest(plain)}
    stored = {**plain, "header": np.frombuffer(json.dumps(header, sort_keys=True).encode(), dtype=np.uint8)}
    write_whole(path, lambda stream: np.savez(stream, **stored))  # type: ignore[arg-type]


def load_arrays(path: Path, about: dict[str, Any] | None = None) -> Arrays:
    """Read what `save_arrays` wrote. Refuses damaged files, other formats and, if given, another `about`."""
    arrays, stored_about = load_described_arrays(path)
    if about is not None and stored_about != json.loads(json.dumps(about)):
        raise NesiError(f"{path}: belongs to another run.")
    return arrays


def load_described_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """The same, with the description of what they are."""
    try:
        with path.open("rb") as stream, zipfile.ZipFile(stream) as archive:
            _check_declared_sizes(archive, stream.seek(0, 2))
            arrays = {member.filename.removesuffix(".npy"): _array(archive, member) for member in archive.infolist()}
        header = json.loads(arrays.pop("header").tobytes())
        stored_format, stored_about, stored_sum = header["format"], header["about"], header["sha256"]
    except FileNotFoundError:
        raise NesiError(f"{path}: no such file.") from None
    except Exception as error:  # zipfile and NumPy raise a dozen kinds of errors for damaged bytes
        raise NesiError(f"{path}: damaged or not written by NeSi ({type(error).__name__}).") from None
    if stored_format != FORMAT:
        raise NesiError(f"{path}: written in format {str(stored_format)[:40]!r}, this version reads format {FORMAT}.")
    if stored_sum != digest(arrays):
        raise NesiError(f"{path}: damaged, its checksum does not match.")
    return arrays, stored_about


def _check_declared_sizes(archive: zipfile.ZipFile, file_size: int) -> None:
    """Before anything is unpacked: we compress nothing, so that all members together are no larger than the file."""
    members = archive.infolist()
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise ValueError("a member is compressed")
    if sum(member.file_size for member in members) > file_size:
        raise ValueError("the members are larger than the file")


def _array(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> np.ndarray:
    """One member, whose header must declare as many bytes as there are."""
    with archive.open(member) as stream:
        version = np.lib.format.read_magic(stream)
        shape, _, dtype = _HEADERS[version](stream)
        if dtype.hasobject or math.prod(shape) * dtype.itemsize != member.file_size - stream.tell():
            raise ValueError("the header declares another size")
    with archive.open(member) as stream:
        return np.asarray(np.lib.format.read_array(stream, allow_pickle=False))
