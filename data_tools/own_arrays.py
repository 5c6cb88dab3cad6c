"""Your own arrays: .npz and svmlight files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.dataset import Dataset, Matrix
from data_tools.errors import DataError, NoLabels
from data_tools.own_labels import OR_ON_THE_PAGE, OwnOptions, OwnPart, assemble
from data_tools.own_tables import beside


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
    classes: list[str] | None = None,
    signed: str = "auto",
) -> Dataset:
    """Arrays X and y; optionally X_test and y_test, class_names, image_shape. Label -1 means unlabeled.

    Without y every point is unlabeled, and `classes` names the classes.
    """
    arrays = open_npz(path)
    if "X" in arrays and "y" not in arrays and classes is not None:
        arrays["y"] = np.full(len(arrays["X"]) if arrays["X"].ndim else 0, -1)
    if "X" in arrays and "y" not in arrays:
        raise NoLabels(f"{path} holds X, expected y (labels) as well; add it, {OR_ON_THE_PAGE.format(path)}")
    if "X" not in arrays:
        raise DataError(
            f"{path} holds {', '.join(sorted(arrays)) or 'nothing'}, expected X (points x inputs) and y; add them."
        )
    if ("X_test" in arrays) != ("y_test" in arrays):
        raise DataError(f"{path} holds only one of X_test and y_test; give both or neither.")
    if arrays["X"].ndim == 3 and image_shape is None:  # a stack of images
        image_shape = (arrays["X"].shape[1], arrays["X"].shape[2])
    if image_shape is None and "image_shape" in arrays:
        image_shape = tuple(arrays["image_shape"].reshape(-1).tolist())  # checked later
    test = OwnPart(flat(arrays["X_test"]), _list(path, arrays["y_test"])) if "X_test" in arrays else None
    names = tuple(str(name) for name in arrays["class_names"].reshape(-1)) if "class_names" in arrays else None
    X = flat(arrays["X"])
    part = OwnPart(X, _list(path, arrays["y"]), [str(row) for row in range(len(X) if X.ndim else 0)])
    return assemble(path, part, test, OwnOptions(test_fraction, seed, drop_empty, classes, signed), image_shape, names)


def _list(path: Path, y: npt.NDArray[Any]) -> list[Any]:
    """Labels as a list; a column (n, 1) is flattened."""
    if y.ndim == 0 or y.size != len(y):
        raise DataError(f"{path} holds labels of shape {y.shape}, expected one number or word per point; correct them.")
    return list(y.reshape(-1))


def flat(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return X.reshape(len(X), -1) if X.ndim > 2 and X.size else X


def load_svmlight(
    path: Path,
    test: str | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    classes: list[str] | None = None,
    signed: str = "auto",
) -> Dataset:
    """Sparse points in svmlight (libsvm) format; `test` names a second file for the test set."""
    X, labels = read_svmlight(path, None)
    test_part = OwnPart(*read_svmlight(beside(path, test), X.shape[1])) if test else None
    part = OwnPart(X, labels, [str(row) for row in range(len(labels))])
    return assemble(path, part, test_part, OwnOptions(test_fraction, seed, drop_empty, classes, signed))


def read_svmlight(path: Path, n_features: int | None) -> tuple[Matrix, list[Any]]:
    from sklearn.datasets import load_svmlight_file

    try:
        X, labels = load_svmlight_file(str(path), dtype=np.float64, n_features=n_features)
    except (OSError, ValueError, OverflowError, MemoryError, EOFError) as error:
        raise DataError(
            f'{path} cannot be read as svmlight ({error}); expected lines like "1 3:0.5 17:2", '
            f"with no more inputs than the training file has."
        ) from error
    return X, list(labels)
