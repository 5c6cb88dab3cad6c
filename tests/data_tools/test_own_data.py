"""A user's own .npz, .csv, svmlight file, or folder of images or texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_files import reporting_only_data_errors
from PIL import Image
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from data_tools import DataError, load
from data_tools.own_labels import label_word

X = np.arange(1, 61, dtype=np.float64).reshape(20, 3)
Y = np.arange(20) % 2


def save(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def test_npz_with_a_test_set(tmp_path: Path) -> None:
    data = load(save(tmp_path / "own.npz", X=X, y=Y + 5, X_test=X[:4], y_test=Y[:4] + 5, class_names=["no", "yes"]))
    assert data.X_train.dtype == np.float32
    assert data.y_train.tolist() == Y.tolist()
    assert data.class_names == ("no", "yes")
    assert data.name == "own.npz"
    assert len(data.y_test) == 4


def test_npz_without_a_test_set_gives_a_stratified_fifth(tmp_path: Path) -> None:
    path = save(tmp_path / "own.npz", X=X, y=Y)
    assert np.bincount(load(path).y_test).tolist() == [2, 2]
    assert np.bincount(load(path, test_fraction=0.5).y_test).tolist() == [5, 5]
    assert np.array_equal(load(path, seed=3).X_test, load(path, seed=3).X_test)


def test_pictures_stay_bytes_and_know_their_shape(tmp_path: Path) -> None:
    data = load(save(tmp_path / "own.npz", X=np.ones((10, 4, 6), np.uint8), y=np.arange(10) % 2))
    assert data.image_shape == (4, 6)
    assert data.X_train.dtype == np.uint8


def test_unlabeled_points_stay_in_the_training_set(tmp_path: Path) -> None:
    y = np.where(np.arange(20) < 8, Y, -1)
    data = load(save(tmp_path / "own.npz", X=X, y=y), test_fraction=0.5)
    assert (data.y_train == -1).sum() == 12
    assert np.bincount(data.y_test).tolist() == [2, 2]


@pytest.mark.parametrize("header", ["0,1,label", "label,0,1", "0,Class,1"])
def test_columns_may_be_called_by_numbers_beside_one_called_label(tmp_path: Path, header: str) -> None:
    place = header.lower().split(",").index("class" if "C" in header else "label")
    rows = [[str(n), str(n + 2)] for n in range(6)]
    for n, row in enumerate(rows):
        row.insert(place, "ab"[n % 2])
    (tmp_path / "own.csv").write_text("\n".join([header, *(",".join(row) for row in rows)]))
    data = load(tmp_path / "own.csv", test_fraction=0)
    assert data.class_names == ("a", "b")
    assert data.X_train.tolist() == [[n, n + 2] for n in range(6)]


def test_a_class_may_be_called_label_where_columns_have_no_names(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("1,2,label\n3,4,no\n5,6,label\n7,8,no\n")
    assert load(tmp_path / "own.csv", test_fraction=0).class_names == ("label", "no")


def test_words_are_classes_too(tmp_path: Path) -> None:
    data = load(save(tmp_path / "own.npz", X=X, y=np.array(["cat", "dog"] * 10)))
    assert data.class_names == ("cat", "dog")


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"Z": X}, "expected X"),
        ({"X": X}, "expected y"),
        ({"X": X, "y": Y[:5]}, "20 points but 5 labels"),
        ({"X": np.where(X > 30, np.nan, X), "y": Y}, "NaN"),
        ({"X": np.where(X > 9, np.inf, X), "y": Y}, "infinite"),
        ({"X": X, "y": np.full(20, -1)}, "no labeled point"),
        ({"X": X.astype(str), "y": Y}, "expected numbers"),
        ({"X": X[:, 0], "y": Y}, "points x inputs"),
        ({"X": X[:0], "y": Y[:0]}, "points x inputs"),
        ({"X": X, "y": Y, "X_test": X}, "only one of X_test and y_test"),
        ({"X": X, "y": Y, "X_test": X[:, :2], "y_test": Y}, "as many inputs"),
        ({"X": X, "y": Y, "X_test": X, "y_test": Y + 7}, "which no training point has"),
        ({"X": X, "y": Y, "image_shape": [5, 5]}, "does not hold 3 pixels"),
        ({"X": X, "y": Y, "class_names": ["a"]}, "1 class name for 2"),
        ({"X": X, "y": Y, "class_names": "a"}, "1 class name for 2"),
        ({"X": X, "y": Y, "image_shape": 3}, "image_shape is"),
        ({"X": X, "y": 3}, r"labels of shape \(\)"),
        ({"X": X, "y": np.eye(20)}, r"labels of shape \(20, 20\)"),
        ({"X": 3, "y": Y}, "points x inputs"),
        ({"X": np.ones((5, 0, 3)), "y": Y[:5]}, "points x inputs"),
        ({"X": np.array([object()] * 20), "y": Y}, "cannot be read as an .npz of plain arrays"),
    ],
)
def test_what_is_wrong_with_an_npz_is_said(tmp_path: Path, arrays: dict[str, Any], reason: str) -> None:
    path = save(tmp_path / "own.npz", **arrays)
    with pytest.raises(DataError, match=reason) as caught:
        load(path)
    assert str(path) in str(caught.value)


def test_empty_points_can_be_dropped(tmp_path: Path) -> None:
    path = save(tmp_path / "own.npz", X=np.where(X < 4, 0, X), y=Y)
    assert len(load(path, test_fraction=0.0).y_train) == 20
    assert len(load(path, drop_empty=True, test_fraction=0.0).y_train) == 19


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_to_an_npz_gives_only_the_modules_own_error(tmp_path: Path, data: st.DataObject) -> None:
    path = save(tmp_path / "fuzzed.npz", X=X, y=Y)
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(0, len(content)))]))
    with reporting_only_data_errors(str(path)):
        load(path)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_csv_with_a_header_finds_its_label(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "label,a,b\n" + "cat,1,2\ndog,3,4\n" * 5)
    data = load(path)
    assert data.class_names == ("cat", "dog")
    assert data.X_train[:2].tolist() == [[1, 2], [3, 4]]


def test_csv_takes_the_column_label_rather_than_y(tmp_path: Path) -> None:
    data = load(write(tmp_path / "own.csv", "x,y,label\n" + "1,2,cat\n3,4,dog\n" * 5))
    assert data.class_names == ("cat", "dog")
    assert data.X_train[:2].tolist() == [[1, 2], [3, 4]]
    assert load(write(tmp_path / "own.csv", "a,b,Y\n" + "1,2,cat\n3,4,dog\n" * 5)).class_names == ("cat", "dog")


def test_csv_without_a_header_takes_the_last_column(tmp_path: Path) -> None:
    data = load(write(tmp_path / "own.csv", "1,2,10\n3,4,9\n" * 5))
    assert data.class_names == ("9", "10")  # numbers in their own order


def test_csv_with_a_named_column_a_test_file_and_unlabeled_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "own.csv", "a,kind,b\n1,x,2\n3,y,4\n5,,6\n")
    write(tmp_path / "held_out.csv", "a,kind,b\n7,y,8\n")
    data = load(path, label_column="kind", test="held_out.csv")
    assert data.y_train.tolist() == [0, 1, -1]
    assert data.X_test.tolist() == [[7, 8]]
    assert data.y_test.tolist() == [1]


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", {}, "is empty"),
        ("1\n2\n", {}, "one column"),
        ("1,2,a\n3,b\n", {}, "point 2 has 2 columns"),
        ("1,2,a\n3,oops,b\n", {}, "point 2 holds something that is not a number"),
        ("a,b,c\n1,2,x\n", {"label_column": "kind"}, "no column 'kind'; its columns are a, b, c"),
        ("1,2,x\n1,2,y\n", {"test": "nowhere.csv"}, "nowhere.csv cannot be read"),
        ("1,-2,x\n", {"signed": "no"}, "negative"),
        ("label,a,Target\nx,1,y\n", {}, "columns 'label' and 'Target', any of which could be the label"),
        ("x,y,kind\n1,2,a\n", {}, "could be the column 'y' or the last one, 'kind'; give label_column"),
    ],
)
def test_what_is_wrong_with_a_csv_is_said(tmp_path: Path, text: str, options: dict[str, Any], reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        load(write(tmp_path / "own.csv", text), **options)


def test_a_test_file_with_other_columns_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "test.csv", "b,a,label\n1,2,x\n")
    with pytest.raises(DataError, match=r"test.csv has the columns b, a, label, but .* has a, b, label"):
        load(write(tmp_path / "own.csv", "a,b,label\n1,2,x\n"), test="test.csv")


def test_svmlight_stays_sparse(tmp_path: Path) -> None:
    path = tmp_path / "own.svmlight"
    dump_svmlight_file(np.where(X > 30, X, 0) + np.eye(20, 3), Y, str(path))
    path.write_text(path.read_text() + "1 1:1\n0 2:1\n")
    data = load(path, drop_empty=True)
    assert sparse.issparse(data.X_train)
    assert data.X_train.dtype == np.float32
    assert data.class_names == ("0", "1")


@pytest.mark.parametrize("text", ["1 x:y\n", "1 3:0.5 2\n", "\0\0\0", ""])
def test_what_is_no_svmlight_is_said(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"own.svm"):
        load(write(tmp_path / "own.svm", text))


def picture(path: Path, size: tuple[int, int] = (6, 4), value: int = 80) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, value, value)).save(path)


def test_a_folder_of_images_per_class(tmp_path: Path) -> None:
    for i in range(5):
        picture(tmp_path / "cats" / f"{i}.png", value=10 + i)
        picture(tmp_path / "dogs" / f"{i}.jpg", value=200 + i)
    picture(tmp_path / "unlabeled" / "who.png")
    data = load(tmp_path)
    assert data.class_names == ("cats", "dogs")
    assert data.image_shape == (4, 6)
    assert (data.y_train == -1).sum() == 1
    assert np.bincount(data.y_test).tolist() == [1, 1]
    assert load(tmp_path, resize=[2, 3]).image_shape == (2, 3)
    assert load(tmp_path, invert=True).X_train.max() == 245


def test_train_and_test_folders_are_kept_apart(tmp_path: Path) -> None:
    for part in ("train", "test"):
        for name in ("a", "b"):
            picture(tmp_path / part / name / "1.png")
    data = load(tmp_path)
    assert (len(data.y_train), len(data.y_test)) == (2, 2)


def test_what_is_wrong_with_a_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no subfolder with files"):
        load(tmp_path)
    picture(tmp_path / "a" / "1.png")
    picture(tmp_path / "b" / "2.png", size=(9, 9))
    with pytest.raises(DataError, match=r"2.png is 9x9 pixels, the first image 4x6"):
        load(tmp_path)
    (tmp_path / "b" / "2.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"2.png cannot be read as an image"):
        load(tmp_path)
    (tmp_path / "b" / "2.png").rename(tmp_path / "b" / "2.txt")
    with pytest.raises(DataError, match="mixes images with other files"):
        load(tmp_path)


def test_a_folder_of_texts_per_class(tmp_path: Path) -> None:
    for i in range(6):
        write(tmp_path / "sport" / f"{i}.txt", "the match and the goal" + " ball" * i)
        write(tmp_path / "cooking" / f"{i}.txt", "the soup and the salt" + " pan" * i)
    (tmp_path / "cooking" / "old.txt").write_bytes("the caf\xe9 soup".encode("latin-1"))
    data = load(tmp_path)
    assert data.vocabulary is not None
    assert {"goal", "soup"} <= set(data.vocabulary)
    assert sparse.issparse(data.X_train)
    assert data.class_names == ("cooking", "sport")
    # A word of every document says nothing and is gone.
    assert data.X_train[:, list(data.vocabulary).index("the")].nnz == 0


def test_a_text_that_weighting_empties_stays_and_can_be_dropped(tmp_path: Path) -> None:
    for i in range(4):
        write(tmp_path / "a" / f"{i}.txt", f"common alpha{i % 2}")
        write(tmp_path / "b" / f"{i}.txt", f"common beta{i % 2}")
    write(tmp_path / "b" / "plain.txt", "common")
    assert len(load(tmp_path, test_fraction=0.0).y_train) == 9
    assert len(load(tmp_path, test_fraction=0.0, drop_empty=True).y_train) == 8


def test_files_that_are_neither_are_named(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "blob.txt").write_bytes(b"\0\1\2")
    with pytest.raises(DataError, match=r"blob.txt is neither an image nor text"):
        load(tmp_path)


def test_labels_as_words() -> None:
    given = [3, 3.0, "3", b"cat", "", -1, -1.0, float("nan"), np.float32(2.5), "inf"]
    assert [label_word(label) for label in given] == ["3", "3", "3", "cat", None, None, None, None, "2.5", "inf"]
