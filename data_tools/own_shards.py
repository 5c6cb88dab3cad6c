"""Your own data that stays on disk: an .npy file, or a folder of .npy, .npz and Parquet files ("shards").

Labels of `a.npy` or `a.npz` are in `a.labels.npy` beside it, or in the array y of the .npz; Parquet has a column of
them. Without labels every point is unlabeled. A subfolder `test` may have a test set of the same form; training data is
in the folder itself or in `train`.
"""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from data_tools.dataset import UNLABELED, Dataset, empty_rows
from data_tools.errors import DataError, NoLabels
from data_tools.own_arrays import open_npz
from data_tools.own_labels import OR_ON_THE_PAGE, classes_among, label_word, named_after, shape_of_images, test_labels
from data_tools.parquet_rows import named_label, names_in_parquet, read_row_group
from data_tools.preprocessing import Preprocessing
from data_tools.rows_on_disk import DecodedShards, MappedFile, RowsOnDisk, Shard, WholeShard
from data_tools.signed import in_two_parts, sentence, settled_pairs
from data_tools.split import stratified_split

_ENDINGS = (".npy", ".npz", ".parquet")
_LABELS = ".labels.npy"
Labels = npt.NDArray[Any] | None


def is_present(folder: Path) -> bool:
    """Whether the folder holds shards."""
    return any(_files_in(place) for place in (folder, folder / "train"))


def load_npy(
    path: Path,
    labels: str | None = None,
    test: str | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    classes: list[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    signed: str = "auto",
) -> Dataset:
    """Points x inputs, or a stack of images. `labels` names their file, by default NAME.labels.npy; `test` names a
    second .npy, with labels beside it, for the test set."""
    given = None if labels is None else _read_labels(path.parent / labels)
    train = [_Part(MappedFile(path), given if given is not None else _labels_beside(path))]
    held_out = None if test is None else _parts_of_file(path.parent / test, None, DecodedShards())
    image_shape = image_shape or _shape_of_stack(path)
    return _assembled(path, train, held_out, test_fraction, seed, drop_empty, classes, image_shape, signed)


def load_shards(
    path: Path,
    label_column: str | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    classes: list[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    signed: str = "auto",
) -> Dataset:
    """All shards of a folder, in the order of their names."""
    last = DecodedShards()
    files = _files_in(path) or _files_in(path / "train")
    train = [part for file in files for part in _parts_of_file(file, label_column, last)]
    test_files = _files_in(path / "test")
    test = [part for file in test_files for part in _parts_of_file(file, label_column, last)] if test_files else None
    if image_shape is None and files[0].suffix == ".npy":
        image_shape = _shape_of_stack(files[0])
    return _assembled(path, train, test, test_fraction, seed, drop_empty, classes, image_shape, signed)


# ---- shards --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    shard: Shard
    labels: Labels  # None: nothing is known


@dataclass(frozen=True, eq=False)
class _NpzFile(WholeShard):
    """CSR rows as scipy saves them, or arrays X and y."""

    path: Path

    def decoded(self) -> Any:
        return _matrix_in_npz(self.path, open_npz(self.path))


@dataclass(frozen=True, eq=False)
class _RowGroup(WholeShard):
    """Some rows of a Parquet file."""

    path: Path
    group: int
    inputs: tuple[str, ...]

    def decoded(self) -> Any:
        return read_row_group(self.path, self.group, list(self.inputs))[0]


def _files_in(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    files = [file for file in sorted(folder.iterdir()) if file.suffix in _ENDINGS and not file.name.startswith(".")]
    return [file for file in files if file.is_file() and not file.name.endswith(_LABELS)]


def _parts_of_file(path: Path, label_column: str | None, last: DecodedShards) -> list[_Part]:
    if not path.is_file():
        raise DataError(f"{path} does not exist; correct the path to your data.")
    path = path.resolve()
    if path.suffix == ".npy":
        return [_Part(MappedFile(path), _labels_beside(path))]
    if path.suffix == ".npz":
        arrays = open_npz(path)
        X = _matrix_in_npz(path, arrays)
        labels = arrays["y"].reshape(-1) if "y" in arrays else _labels_beside(path)
        stored = int(X.nnz) if sparse.issparse(X) else int(X.size)
        return [_Part(_NpzFile(X.shape, X.dtype, sparse.issparse(X), stored, last, path), labels)]
    if path.suffix == ".parquet":
        return _parts_of_parquet(path, label_column, last)
    raise DataError(f"{path} has an unknown file extension; use {', '.join(_ENDINGS)}.")


def _parts_of_parquet(path: Path, label_column: str | None, last: DecodedShards) -> list[_Part]:
    names, sizes = names_in_parquet(path)
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{path} has several columns called {twice[0]!r}; give each a name of its own.")
    label = named_label(path, names, label_column)
    inputs = tuple(name for place, name in enumerate(names) if place != label)
    if not inputs:
        raise DataError(f"{path} has no column of inputs; give at least one.")
    parts = []
    for group, size in enumerate(sizes):
        if not size:
            continue
        labels = None if label is None else read_row_group(path, group, [], names[label])[1]
        shape = (size, len(inputs))
        shard = _RowGroup(shape, np.dtype(np.float32), False, size * len(inputs), last, path, group, inputs)
        parts.append(_Part(shard, labels))
    return parts


def _matrix_in_npz(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> Any:
    try:
        if {"data", "indices", "indptr", "shape"} <= set(arrays):
            X = sparse.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), tuple(arrays["shape"]))
            X.check_format()
            return X
        if "X" in arrays:
            return arrays["X"].reshape(len(arrays["X"]), -1)
    except (ValueError, TypeError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} holds no CSR matrix ({error}); save it with scipy.sparse.save_npz.") from None
    raise DataError(
        f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, expected the arrays of a CSR matrix as "
        "scipy.sparse.save_npz writes them, or X; correct it."
    )


def _labels_beside(path: Path) -> Labels:
    beside = path.with_name(path.name.removesuffix(path.suffix) + _LABELS)
    return _read_labels(beside) if beside.is_file() else None


def _read_labels(path: Path) -> npt.NDArray[Any]:
    try:
        labels: npt.NDArray[Any] = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be read as an .npy array ({str(error)[:120]}); save it again.") from None
    if not isinstance(labels, np.ndarray) or labels.ndim == 0 or labels.size != len(labels):
        raise DataError(
            f"{path} holds labels of shape {getattr(labels, 'shape', ())}, expected one number or word per point."
        )
    return labels.reshape(-1)


def _shape_of_stack(path: Path) -> tuple[int, int] | None:
    """Of images that are two-dimensional in the file."""
    shape = np.load(path, mmap_mode="r", allow_pickle=False).shape
    return (int(shape[1]), int(shape[2])) if len(shape) == 3 else None


# ---- the data set --------------------------------------------------------------------------------------------------


def _assembled(
    path: Path,
    train: list[_Part],
    test: list[_Part] | None,
    test_fraction: float,
    seed: int,
    drop_empty: bool,
    classes: list[str] | None,
    image_shape: tuple[int, int] | None,
    signed: str,
) -> Dataset:
    train, test = _in_the_same_columns(path, train, test)
    X, words, number_of = _matrix(path, train), *_words(path, train)
    preprocessing = Preprocessing(X.shape[1], image_shape and shape_of_images(path, image_shape))
    split = settled_pairs(X, signed) is not None  # parts: ranges are for data in memory
    if split:
        preprocessing = replace(preprocessing, signed=True)
        if signed == "auto":
            warnings.warn(f"{path}: {sentence(X)}", stacklevel=5)
        X, image_shape = in_two_parts(X), None  # two halves side by side are no image
    if classes is None and not any(word is not None for word in words):
        raise NoLabels(f"{path} has no labeled point; name the classes, {OR_ON_THE_PAGE.format(path)}")
    found = classes_among(path, words, classes)
    y = np.array([UNLABELED if word is None else found.index(word) for word in words], dtype=np.int64)[number_of]
    rows = np.setdiff1d(np.arange(len(y)), empty_rows(X)) if drop_empty else np.arange(len(y))
    if test is None:
        kept, held_out = (rows[part] for part in stratified_split(y[rows], test_fraction, seed))
        X_test, y_test = X.selected(held_out), y[held_out]
    else:
        kept, X_test = rows, _matrix(path, test)
        test_words, test_number_of = _words(path, test)
        y_test = test_labels(path, test_words, {word: k for k, word in enumerate(found)})[test_number_of]
        X_test = in_two_parts(X_test) if split else X_test
    everything = len(kept) == len(y)
    return named_after(
        path,
        X if everything else X.selected(kept),
        y if everything else y[kept],
        X_test,
        y_test,
        tuple(found),
        image_shape=None if image_shape is None else shape_of_images(path, image_shape),
        preprocessing=preprocessing,
        held_out=len(y_test) if test is None else None,
    )


def _in_the_same_columns(
    path: Path, train: list[_Part], test: list[_Part] | None
) -> tuple[list[_Part], list[_Part] | None]:
    """Parquet files may have their columns in different orders: those of the first file decide."""
    tables = [part.shard for part in (*train, *(test or ())) if isinstance(part.shard, _RowGroup)]

    def sorted_columns(part: _Part) -> _Part:
        if not isinstance(part.shard, _RowGroup) or part.shard.inputs == tables[0].inputs:
            return part
        if different := set(part.shard.inputs) ^ set(tables[0].inputs):
            raise DataError(
                f"{part.shard.path} and {tables[0].path} have different columns, such as {min(different)!r}; give all "
                "files the same ones."
            )
        return replace(part, shard=replace(part.shard, inputs=tables[0].inputs))

    return [sorted_columns(part) for part in train], None if test is None else [sorted_columns(part) for part in test]


def _matrix(path: Path, parts: list[_Part]) -> RowsOnDisk:
    shards = [part.shard for part in parts]
    for shard in shards:
        if shard.sparse != shards[0].sparse:
            raise DataError(f"{path} has dense and sparse shards; give all of them the same form.")
        if shard.shape[1] != shards[0].shape[1]:
            raise DataError(
                f"{path} has shards of {shards[0].shape[1]} and of {shard.shape[1]} inputs; give all the same inputs."
            )
        if shard.dtype.kind not in "uif":
            raise DataError(f"{path} holds data of type {shard.dtype}, expected numbers; convert it.")
    if not shards:
        raise DataError(f"{path} holds no point; give at least one.")
    return RowsOnDisk(shards)


def _words(path: Path, parts: list[_Part]) -> tuple[Sequence[str | None], npt.NDArray[np.int64]]:
    """The labels that occur, as words (None: unlabeled), and the number of that of each point."""
    words: dict[str | None, int] = {}
    numbers = []
    for part in parts:
        n_points = part.shard.shape[0]
        if part.labels is None:
            numbers.append(np.full(n_points, words.setdefault(None, len(words))))
            continue
        if len(part.labels) != n_points:
            raise DataError(f"{path} has {n_points} points but {len(part.labels)} labels; give one label per point.")
        different, places = np.unique(part.labels, return_inverse=True)
        known = [words.setdefault(label_word(label), len(words)) for label in different.tolist()]
        numbers.append(np.array(known, dtype=np.int64)[places.reshape(-1)])
    return list(words), np.concatenate(numbers).astype(np.int64, copy=False)
