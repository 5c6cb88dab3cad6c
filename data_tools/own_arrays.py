"""Your own arrays: .npz, .csv and svmlight files."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.dataset import Dataset, Matrix
from data_tools.errors import DataError
from data_tools.own_labels import assemble

_LABEL_NAMES = ("label", "labels", "class", "target")
_WEAK_NAME = "y"  # may as well be a coordinate


def open_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """All arrays of an .npz; pickled objects are rejected, as they could run any code."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except Exception as error:  # zipfile, zlib and NumPy raise different errors on damaged files
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{path} cannot be read as an .npz of plain arrays ({reason}); save it again.") from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # any other file inside is returned as bytes
            raise DataError(f"{path}: member {name} is not an array; save it again.")
    return arrays


def load_npz(
    path: Path,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    image_shape: tuple[int, int] | None = None,
) -> Dataset:
    """Arrays X and y; optionally X_test and y_test, class_names, image_shape. Label -1 means unlabeled."""
    arrays = open_npz(path)
    if "X" not in arrays or "y" not in arrays:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, expected X (points x inputs) and y; add them."
        )
    if ("X_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path} holds only one of X_test and y_test; give both or neither.")
    if arrays["X"].ndim == 3 and image_shape is None:  # a stack of images
        image_shape = (arrays["X"].shape[1], arrays["X"].shape[2])
    if image_shape is None and "image_shape" in arrays:
        image_shape = tuple(arrays["image_shape"].reshape(-1).tolist())  # checked later
    test = (_flat(arrays["X_test"]), _list(path, arrays["y_test"])) if "X_test" in arrays else None
    names = tuple(str(name) for name in arrays["class_names"].reshape(-1)) if "class_names" in arrays else None
    X, labels = _flat(arrays["X"]), _list(path, arrays["y"])
    return assemble(path, X, labels, test, test_fraction, seed, drop_empty, image_shape, names)


def _list(path: Path, y: npt.NDArray[Any]) -> list[Any]:
    """Labels as a list; a column (n, 1) is flattened."""
    if y.ndim == 0 or y.size != len(y):
        raise DataError(f"{path} holds labels of shape {y.shape}, expected one number or word per point; correct them.")
    return list(y.reshape(-1))


def _flat(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return X.reshape(len(X), -1) if X.ndim > 2 and X.size else X


def load_csv(
    path: Path,
    test: str | None = None,
    label_column: str | int | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    image_shape: tuple[int, int] | None = None,
) -> Dataset:
    """One point per line. The label is the column named label, class or target, else y, else the last one.

    An empty label means unlabeled. `test` names a second file in the same format for the test set.
    """
    X, labels, header = _read_csv(path, label_column)
    test_part = None
    if test:
        X_test, test_labels, test_header = _read_csv(_beside(path, test), label_column)
        test_part = (X_test, test_labels)
        if header != test_header:
            raise DataError(
                f"{_beside(path, test)} has the columns {_shown(test_header)}, but {path} has {_shown(header)}; "
                f"give both the same."
            )
    return assemble(path, X, labels, test_part, test_fraction, seed, drop_empty, image_shape)


def _shown(header: list[str] | None) -> str:
    names = ", ".join(header or [])
    return names[:200] + " ..." if len(names) > 200 else names or "without names"


def _read_csv(
    path: Path, label_column: str | int | None
) -> tuple[npt.NDArray[np.float32], list[Any], list[str] | None]:
    """Inputs, labels, and the names of the columns if there are any."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = [row for row in csv.reader(stream) if any(field.strip() for field in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as .csv ({error}); save it as plain comma-separated text.") from error
    if not rows:
        raise DataError(f"{path} is empty; expected one point per line.")
    header = [name.strip() for name in rows[0]] if not any(_is_number(field) for field in rows[0][:-1]) else None
    lines = rows[1:] if header else rows
    column = _label_index(path, header, len(rows[0]), label_column)
    X = np.empty((len(lines), len(rows[0]) - 1), dtype=np.float32)
    labels: list[Any] = []
    for number, row in enumerate(lines):
        where = f"{path}: point {number + 1}"
        if len(row) != len(rows[0]):
            raise DataError(f"{where} has {len(row)} columns, expected {len(rows[0])} as in the first line; fix it.")
        try:
            X[number] = [float(field) for i, field in enumerate(row) if i != column]
        except ValueError as error:
            raise DataError(f"{where} holds something that is not a number ({error}); fix it.") from error
        labels.append(row[column].strip())
    return X, labels, header


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _label_index(path: Path, header: list[str] | None, n_columns: int, wanted: str | int | None) -> int:
    if n_columns < 2:
        raise DataError(f"{path} has one column, expected inputs and a label separated by commas.")
    if isinstance(wanted, int) and -n_columns <= wanted < n_columns:
        return wanted % n_columns
    if wanted is not None:
        if header is None or wanted not in header:
            raise DataError(
                f"{path} has no column {wanted!r}; its columns are {', '.join(header) if header else 'unnamed'}."
            )
        return header.index(str(wanted))
    names = header or []
    named = [i for i, name in enumerate(names) if name.lower() in _LABEL_NAMES]
    named = named or [i for i, name in enumerate(names) if name.lower() == _WEAK_NAME]
    if len(named) > 1:
        both = " and ".join(f"{names[i]!r}" for i in named)
        raise DataError(f"{path} has the columns {both}, any of which could be the label; give label_column.")
    if named and names[named[0]].lower() == _WEAK_NAME and named[0] not in (0, n_columns - 1):
        raise DataError(
            f"{path}: the label could be the column {names[named[0]]!r} or the last one, {names[-1]!r}; "
            "give label_column."
        )
    return named[0] if named else n_columns - 1


def load_svmlight(
    path: Path, test: str | None = None, test_fraction: float = 0.2, seed: int = 0, drop_empty: bool = False
) -> Dataset:
    """Sparse points in svmlight (libsvm) format; `test` names a second file for the test set."""
    X, labels = _read_svmlight(path, None)
    test_part = _read_svmlight(_beside(path, test), X.shape[1]) if test else None
    return assemble(path, X, labels, test_part, test_fraction, seed, drop_empty, None)


def _read_svmlight(path: Path, n_features: int | None) -> tuple[Matrix, list[Any]]:
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(str(path), dtype=np.float32, n_features=n_features)
    except (OSError, ValueError, OverflowError, MemoryError, EOFError) as error:
        raise DataError(
            f'{path} cannot be read as svmlight ({error}); expected lines like "1 3:0.5 17:2", '
            f"with no more inputs than the training file has."
        ) from error
    return X, list(labels)


def _beside(path: Path, other: str) -> Path:
    """A second file, by its own path or by its name next to the first."""
    return Path(other) if Path(other).is_file() else path.parent / other
