"""`load_new`: further files, made into inputs in the way in which the training files were."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from data_tools.dataset import Matrix, check_matrix, empty_rows
from data_tools.errors import DataError, counted
from data_tools.float32 import narrow, numbers_of
from data_tools.idx import read_idx_file
from data_tools.mnist import find_parts
from data_tools.nist_images import BadImage, preprocessed_pixels, raw_pixels
from data_tools.own_arrays import flat, open_npz, read_svmlight
from data_tools.own_folders import IMAGE_ENDINGS, are_images, count_words, files_in, read_images
from data_tools.own_tables import ARROW_ENDINGS, new_inputs, new_row_names, numbers, read_table
from data_tools.preprocessing import Preprocessing
from data_tools.tfidf import weighted
from data_tools.triplets import find_plain_or_gz, read_counts, read_integers

_MOST_DOCUMENTS = 100_000_000
_TABLES = (".csv", ".tsv", *ARROW_ENDINGS)
_SVMLIGHT = (".svmlight", ".svm", ".libsvm")


class NewPoints(NamedTuple):
    """Inputs, and a name for each point: its file, or its row, counted from 0."""

    X: Matrix
    names: list[str]


def load_new(path_or_name: str | os.PathLike[str], how: Preprocessing) -> NewPoints:
    """The points in a file or folder of the kind that was trained on; labels in it are passed over."""
    path = Path(path_or_name).expanduser()
    if not path.exists():
        raise DataError(f"{path} does not exist; correct the path to the new data.")
    X, names = _in_folder(path, how) if path.is_dir() else _in_file(path, how)
    if X.ndim != 2 or X.shape[0] == 0:
        raise DataError(f"{path} holds data of shape {tuple(X.shape)}, expected points x inputs; correct it.")
    X = numbers_of(path, X)
    if X.shape[1] != how.n_inputs:
        raise DataError(
            f"{path} has {counted(X.shape[1], 'input')}, but the network was trained with {how.n_inputs}; "
            "give the same inputs."
        )
    if how.pairs is not None:
        X = how.pairs.of(X)
    X = narrow(path, X)
    check_matrix(str(path), "new", X[np.setdiff1d(np.arange(X.shape[0]), empty_rows(X))])
    return NewPoints(X, names if names is not None else [str(row) for row in range(X.shape[0])])


def _in_folder(path: Path, how: Preprocessing) -> tuple[Matrix, list[str] | None]:
    idx = {part: file for part, file in find_parts(path).items() if part.endswith("images")}
    if idx:
        return flat(read_idx_file(idx.get("t10k-images") or idx["train-images"], n_axes=3)), None
    if (path / "test.data").is_file() or (path / "test.data.gz").is_file():
        return _word_counts(find_plain_or_gz(path, "test.data"), how), None
    files = files_in(path)
    if not files:
        raise DataError(f"{path} holds no file; give a folder with the new data.")
    X = _from_images(files, how) if are_images(path, files) else _from_texts(files, how)
    return X, [file.relative_to(path).as_posix() for file in files]


def _in_file(path: Path, how: Preprocessing) -> tuple[Matrix, list[str] | None]:
    ending = path.suffix.lower()
    if ending == ".npz":
        arrays = open_npz(path)
        if "X" not in arrays:
            raise DataError(f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, expected X (points x inputs).")
        return flat(arrays["X"]), None
    if ending in _TABLES:
        table = read_table(path)
        return numbers(path, table, new_inputs(path, table, how)), new_row_names(table, how)
    if ending in _SVMLIGHT:
        return read_svmlight(path, how.n_inputs)[0], None
    if ending in IMAGE_ENDINGS:
        return _from_images([path], how), [path.name]
    if "idx3-ubyte" in path.name:
        return flat(read_idx_file(path, n_axes=3)), None
    if path.name.removesuffix(".gz").endswith(".data"):
        return _word_counts(path, how), None
    return _from_texts([path], how), [path.name]


def _from_images(files: list[Path], how: Preprocessing) -> Any:
    if how.image_shape is None:
        raise DataError(f"{files[0]} is an image, but the network was not trained on images; give the same kind.")
    if how.decoder == "grey":
        return read_images(files, how)
    decode = preprocessed_pixels if how.decoder == "nist" else partial(raw_pixels, invert=how.invert)
    pixels = np.empty((len(files), how.n_inputs), dtype=np.uint8)
    for row, file in enumerate(files):
        try:
            pixels[row] = decode(file.read_bytes())
        except BadImage as reason:
            raise DataError(f"{file} {reason}; fix or remove it.") from None
        except OSError as error:
            raise DataError(f"{file} cannot be read ({error}); check the file and its permissions.") from error
    return pixels


def _from_texts(files: list[Path], how: Preprocessing) -> sparse.csr_matrix:
    if how.vocabulary is None:
        raise DataError(f"{files[0]} is text, but the network was not trained on texts; give the same kind.")
    return _weighted(count_words(files, how.vocabulary), how)


def _word_counts(path: Path, how: Preprocessing) -> sparse.csr_matrix:
    if how.vocabulary is None:
        raise DataError(f"{path} holds word counts, but the network was not trained on texts; give the same kind.")
    documents = int(read_integers(path, per_line=3)[:, 0].max())
    if documents > _MOST_DOCUMENTS:
        raise DataError(f"{path} has a document {documents}, expected {_MOST_DOCUMENTS} at most; split the file.")
    return _weighted(read_counts(path, documents, how.n_inputs), how)


def _weighted(counts: sparse.csr_matrix, how: Preprocessing) -> sparse.csr_matrix:
    weights = how.word_weights
    return counts if weights is None else weighted(counts, weights)
