"""Arrays on disk: trained weights, details of a run, and checkpoints. Plain npz, no pickles, checked before use."""

import hashlib
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.storage.records import write_whole

FORMAT = 1
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
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.loads(arrays.pop("header").tobytes())
        stored_format, stored_about, stored_sum = header["format"], header["about"], header["sha256"]
    except FileNotFoundError:
        raise NesiError(f"{path}: no such file.") from None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
        raise NesiError(f"{path}: damaged or not written by NeSi ({type(error).__name__}).") from None
    if stored_format != FORMAT:
        raise NesiError(f"{path}: written in format {stored_format!r}, this version reads format {FORMAT}.")
    if stored_sum != digest(arrays):
        raise NesiError(f"{path}: damaged, its checksum does not match.")
    return arrays, stored_about
