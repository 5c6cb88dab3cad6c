"""Values that float32 cannot hold: a point keeps its direction, in training files and in new ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from data_tools import DataError, Preprocessing, load
from data_tools.new_points import load_new
from data_tools.parquet_rows import read_row_group

X = np.arange(1, 61, dtype=np.float64).reshape(20, 3)
Y = np.arange(20) % 2


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def in_files(folder: Path, X: np.ndarray, y: np.ndarray) -> list[Path]:
    """The same points as an .npz, as a table and in svmlight format."""
    rows = [",".join([*(f"{value!r}" for value in row.tolist()), str(k)]) for row, k in zip(X, y, strict=True)]
    (folder / "own.csv").write_text("\n".join(["a,b,c,label", *rows]))
    dump_svmlight_file(X, y, str(folder / "own.svm"), zero_based=True)
    return [save(folder / "own.npz", X=X, y=y), folder / "own.csv", folder / "own.svm"]


@pytest.mark.parametrize("size", [2.0**900, 2.0**-900])
def test_values_that_float32_cannot_hold_keep_the_direction_of_their_point(tmp_path: Path, size: float) -> None:
    scaled = X.copy()
    scaled[3:7] *= size
    for path in in_files(tmp_path, scaled, Y):
        found = load(path, test_fraction=0).X_train
        assert found.dtype == np.float32
        found = found.toarray() if sparse.issparse(found) else found
        np.testing.assert_array_equal(
            found / found.sum(axis=1, keepdims=True), (X / X.sum(axis=1)[:, None]).astype("f")
        )
        np.testing.assert_array_equal(found[:3], X[:3])  # ordinary points stay as they are
        new = load_new(path, Preprocessing(3, columns=("a", "b", "c") if path.suffix == ".csv" else None)).X
        new = new.toarray() if sparse.issparse(new) else new
        np.testing.assert_array_equal(new, found)


def test_large_values_with_a_sign_keep_their_direction(tmp_path: Path) -> None:
    signed = X * 2.0**900 * np.where(Y, -1, 1)[:, None]
    found = load(save(tmp_path / "own.npz", X=signed, y=Y), test_fraction=0, signed="split").X_train
    np.testing.assert_array_equal(found[:, :3] > 0, signed > 0)
    np.testing.assert_array_equal(found[:, 3:] > 0, signed < 0)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("kind", ["bool", "float16", "longdouble", "int64"])
def test_new_points_may_have_any_type_that_training_points_may_have(tmp_path: Path, kind: str) -> None:
    points = (X > 20).astype(kind)
    found = load_new(save(tmp_path / "new.npz", X=points), Preprocessing(3)).X
    np.testing.assert_array_equal(found, points.astype(np.float32))


def test_new_points_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="<U3, expected numbers"):
        load_new(save(tmp_path / "new.npz", X=np.full((2, 3), "abc")), Preprocessing(3))


def test_rows_of_parquet_files_keep_their_direction(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet")
    scaled = X * np.where(np.arange(20) % 3 == 0, 2.0**900, 1)[:, None]
    table = pyarrow.table({name: scaled[:, place] for place, name in enumerate("abc")})
    pyarrow.parquet.write_table(table, tmp_path / "own.parquet")
    found, _ = read_row_group(tmp_path / "own.parquet", 0, ["a", "b", "c"])
    np.testing.assert_array_equal(found / found.sum(axis=1, keepdims=True), (X / X.sum(axis=1)[:, None]).astype("f"))


def test_places_in_the_range_of_a_column_do_not_depend_on_other_columns(tmp_path: Path) -> None:
    """Measurements are no directions: a row must not be scaled before its values are put into their ranges."""
    measured = X + 0.5
    large = measured.copy()
    large[:, 2] *= 2.0**900
    paths = [save(tmp_path / "own.npz", X=measured, y=Y), save(tmp_path / "large.npz", X=large, y=Y)]
    ordinary, found = (load(path, test_fraction=0, signed="range").X_train for path in paths)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, ordinary, rtol=1e-6, atol=1e-7)
