"""Own files through the command line: every documented option, what is passed over, warned of and refused."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
import yaml
from command_line import nesi, records, run_here, write_params
from PIL import Image
from sklearn.datasets import dump_svmlight_file

import data_tools
from data_tools import DataError
from nesi.config.reading import load_parameters
from nesi.experiment.cells import load_dataset
from nesi.report.comparison import collect, interval_of_a_small_test, summarize

pytestmark = pytest.mark.usefixtures("one_thread")
N = 40
X = np.random.default_rng(0).integers(1, 9, size=(N, 6))
WORDS = [("left", "right")[n % 2] for n in range(N)]
SMALL = {"C": 4, "A": 120, "networks": ["ff"], "labels": ["all"], "runs": 1, "iterations": 2, "batch_size": 10}


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """One file or folder of every kind; the data lies where the program is started."""
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", X=X, y=np.array(WORDS))
    np.savez("unlabeled.npz", X=X)
    lines = [",".join(map(str, [f"n{n}", *row, word])) for n, (row, word) in enumerate(zip(X, WORDS, strict=True))]
    Path("own.csv").write_text("\n".join(["name,a,b,c,d,e,f,kind", *lines]))
    Path("own.tsv").write_text("\n".join(["name,a,b,c,d,e,f,kind", *lines]).replace(",", "\t"))
    Path("other.csv").write_text("\n".join(["name,a,b,c,d,e,f,kind", *lines[:6]]))
    Path("bare.csv").write_text("\n".join(line.split(",", 1)[1] for line in lines))
    dump_svmlight_file(X, np.arange(N) % 2, "own.svmlight")
    dump_svmlight_file(X[:6], np.arange(6) % 2, "other.svmlight")
    for n, (row, word) in enumerate(zip(X, WORDS, strict=True)):
        _folder(Path("images") / word).joinpath(f"{n}.png").write_bytes(_png(row))
        _folder(Path("texts") / word).joinpath(f"{n}.txt").write_text(f"{word} word{row[0]} word{row[1]} and others")
    return tmp_path


def _folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path


def _png(row: np.ndarray) -> bytes:
    path = Path("one.png")
    Image.fromarray((20 * row.reshape(2, 3)).astype(np.uint8)).save(path)
    return path.read_bytes()


def loaded(dataset: str, **options: Any) -> data_tools.Dataset:
    """As a run loads it, from a parameter file."""
    Path("p.yaml").write_text(yaml.safe_dump({**SMALL, "dataset": dataset, "data": options}))
    return load_dataset(load_parameters(Path("p.yaml")), None)


TABLE = {"label_column": "kind", "ignore_columns": ["name"]}
OPTIONS: list[tuple[str, dict[str, Any], Any]] = [
    ("own.npz", {"test_fraction": 0.5}, lambda data: len(data.y_test) == 20),
    ("own.npz", {"test_fraction": 0}, lambda data: (len(data.y_train), len(data.y_test)) == (40, 0)),
    ("own.npz", {"seed": 5}, lambda data: not np.array_equal(data.X_test, data_tools.load("own.npz").X_test)),
    ("own.npz", {"drop_empty": True}, lambda data: len(data.y_train) == 32),
    ("own.npz", {"image_shape": [2, 3]}, lambda data: data.image_shape == (2, 3)),
    ("own.npz", {"signed": "split"}, lambda data: data.X_train.shape == (32, 12)),
    ("own.csv", {**TABLE, "signed": "split"}, lambda data: data.X_train.shape == (32, 12)),
    ("own.npz", {"classes": ["right", "left", "up"]}, lambda data: data.class_names == ("right", "left", "up")),
    ("unlabeled.npz", {"classes": ["a", "b"]}, lambda data: (data.y_train == -1).all() and len(data.y_test) == 0),
    ("own.csv", TABLE, lambda data: data.class_names == ("left", "right") and data.X_train.shape == (32, 6)),
    ("own.tsv", TABLE, lambda data: data.class_names == ("left", "right") and data.X_train.shape == (32, 6)),
    ("own.csv", {"label_column": -1, "ignore_columns": [0]}, lambda data: data.X_train.shape == (32, 6)),
    ("own.csv", {"ignore_columns": ["name", "a", "f"]}, lambda data: data.X_train.shape == (32, 4)),
    ("own.csv", {**TABLE, "test": "other.csv"}, lambda data: (len(data.y_train), len(data.y_test)) == (40, 6)),
    ("own.csv", {**TABLE, "image_shape": [3, 2]}, lambda data: data.image_shape == (3, 2)),
    ("own.csv", {**TABLE, "classes": ["left", "right", "up"]}, lambda data: len(data.class_names) == 3),
    ("bare.csv", {"ignore_columns": [1, 2]}, lambda data: data.X_train.shape == (32, 4)),
    ("own.svmlight", {"test": "other.svmlight"}, lambda data: (len(data.y_train), len(data.y_test)) == (40, 6)),
    ("own.svmlight", {"signed": "split"}, lambda data: data.X_train.shape == (32, 12)),
    ("own.svmlight", {"classes": [0, 1, 2]}, lambda data: data.class_names == ("0", "1", "2")),
    ("images", {"resize": [4, 5]}, lambda data: data.image_shape == (4, 5)),
    ("images", {"invert": True}, lambda data: data.X_train.max() > 200),
    ("images", {"classes": ["left", "right", "up"]}, lambda data: len(data.class_names) == 3),
    ("texts", {"idf": "legacy"}, lambda data: data.X_train.max() != data_tools.load("texts").X_train.max()),
    ("texts", {"test_fraction": 0.25, "seed": 1, "drop_empty": True}, lambda data: len(data.y_test) == 10),
]


@pytest.mark.parametrize(
    ("dataset", "options", "holds"), OPTIONS, ids=[f"{name} {sorted(given)}" for name, given, _ in OPTIONS]
)
def test_every_option_works_in_a_parameter_file(folder, dataset, options, holds):
    assert holds(loaded(dataset, **options))


def test_every_documented_option_is_tried_above():
    from inspect import signature

    from data_tools import own_arrays, own_folders, own_tables

    tried: dict[str, set[str]] = {}
    for name, given, _ in OPTIONS:
        tried.setdefault(Path(name).suffix, set()).update(given)
    tried[".csv"] |= tried.pop(".tsv")
    common = {"test_fraction", "seed", "drop_empty"}  # in one place for all formats
    for loader, ending in (
        (own_arrays.load_npz, ".npz"),
        (own_arrays.load_svmlight, ".svmlight"),
        (own_tables.load_table, ".csv"),
        (own_folders.load_folder, ""),
    ):
        assert set(signature(loader).parameters) - {"path"} - common <= tried[ending], loader
    assert common <= tried[".npz"]


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        ("images", {"resize": [4]}, "two positive integers"),
        ("images", {"resize": "big"}, "resize"),
        ("own.csv", {"ignore_columns": "name"}, "expected a list of columns"),
        ("own.csv", {"ignore_columns": ["nam"]}, "no column 'nam'; its columns are name, a"),
        ("own.csv", {"ignore_columns": ["kind", "name"]}, "holds the labels"),
        ("bare.csv", {"ignore_columns": [9]}, "count them from 0 to 6"),
        ("own.csv", {"label_column": "kind"}, "ignore_columns"),
        ("own.npz", {"classes": ["left"]}, "label right, which is not among the given classes"),
        ("own.npz", {"classes": ["left", "left"]}, "different names"),
        ("own.npz", {"classes": "left"}, "different names"),
        ("unlabeled.npz", {}, "expected y (labels) as well; add it, or label what a network has learned, on a page"),
    ],
)
def test_options_that_make_no_sense_get_one_sentence(folder, dataset, options, message):
    params = write_params(folder / "p.yaml", **{**SMALL, "dataset": dataset, "data": options})
    code, _, errors = run_here(params, "--out", folder / "run")
    assert code == 2
    assert message in errors
    assert errors.count("\n") == 1


def test_files_of_the_system_are_passed_over(folder):
    expected = loaded("images")
    for name in ("Thumbs.db", ".DS_Store", "desktop.ini", "ehthumbs.db"):
        (folder / "images" / "left" / name).write_bytes(b"\0")
    (folder / "images" / "__MACOSX" / "left").mkdir(parents=True)
    (folder / "images" / "__MACOSX" / "left" / "._0.png").write_bytes(b"\0")
    np.testing.assert_array_equal(loaded("images").X_train, expected.X_train)


@pytest.mark.parametrize("column", ["id", "customer_id", "Index", "", "count"])
def test_a_column_that_looks_like_an_id_is_warned_of(folder, column, capsys):
    lines = [f"{n if column == 'count' else 7 - n % 3},{x},{y},{word}" for n, (x, y, word) in enumerate(_pairs())]
    (folder / "t.csv").write_text("\n".join([f"{column},x,z,label", *lines]))
    with pytest.warns(UserWarning, match=f"column '{column}' looks like an id and is used as an input"):
        data_tools.load("t.csv")
    loaded("t.csv")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: t.csv: column")
    assert line.endswith(f"leave it out with ignore_columns: [{column}].")
    data_tools.load("t.csv", ignore_columns=[column])  # without a warning, which would be an error


def _pairs():
    return [(int(row[0]), int(row[1]), word) for row, word in zip(X, WORDS, strict=True)]


@pytest.mark.parametrize("ending", [".parquet", ".feather", ".arrow"])
def test_columnar_files_hold_the_same_as_text(folder, ending):
    kinds = [None if n % 4 == 3 else word for n, word in enumerate(WORDS)]
    table = pa.table({"name": [f"n{n}" for n in range(N)], **dict(zip("abcdef", X.T, strict=True)), "kind": kinds})
    write = pyarrow.parquet.write_table if ending == ".parquet" else pyarrow.feather.write_feather
    write(table, f"t{ending}")
    data = loaded(f"t{ending}", **TABLE)
    assert data.class_names == ("left", "right")
    assert (data.y_train == -1).sum() == 10
    rows = [int(name[1:]) for name in data.point_names]
    np.testing.assert_array_equal(data.X_train, X[rows])
    (folder / f"bad{ending}").write_bytes(b"PAR1 no table")
    with pytest.raises(DataError, match="cannot be read as"):
        data_tools.load(f"bad{ending}")


def test_a_table_with_gaps_or_two_equal_columns_is_refused(folder):
    pyarrow.parquet.write_table(pa.table({"a": [1, None], "b": [1, 2], "label": ["x", "y"]}), "gaps.parquet")
    with pytest.raises(DataError, match="NaN"):
        data_tools.load("gaps.parquet")
    (folder / "twice.csv").write_text("a,a,label\n1,2,x\n3,4,y\n")
    with pytest.raises(DataError, match="two columns named 'a'"):
        data_tools.load("twice.csv")


def test_fewer_units_than_classes_are_refused_everywhere(folder):
    params = write_params(folder / "p.yaml", **{**SMALL, "dataset": "own.npz", "C": 1})
    code, _, errors = run_here(params, "--out", folder / "run")
    assert code == 2
    assert "C is 1 (ff with 32 labels), but must be at least 2" in errors
    from nesi import NeSiClassifier, NesiError

    with pytest.raises(NesiError, match="n_subclasses is 1, but must be at least 2"):
        NeSiClassifier(n_subclasses=1).fit(X, WORDS)


def test_how_many_labels_were_held_out_is_said_with_an_interval(folder):
    params = write_params(folder / "p.yaml", **{**SMALL, "dataset": "own.npz"})
    code, output, _ = run_here(params, "--out", folder / "run")
    assert code == 0
    assert "8 of 40 labels are held out for testing" in output
    (cell,) = summarize(collect([folder / "run"]))
    low, high = interval_of_a_small_test(cell)
    assert f"tested on 8 points only: its error lies between {low:.1f} and {high:.1f} % (95 % interval)" in output
    wrong, z = cell.mean / 100, 1.959964  # Wilson's formula, written out
    middle, half = (wrong + z**2 / 16) / (1 + z**2 / 8), z * np.sqrt(wrong * (1 - wrong) / 8 + z**2 / 256)
    assert low == pytest.approx(100 * (middle - half / (1 + z**2 / 8)), abs=1e-3)
    assert high == pytest.approx(100 * (middle + half / (1 + z**2 / 8)), abs=1e-3)
    assert json.loads((folder / "run" / "summary.json").read_text())[0]["n_test"] == 8


def test_without_a_test_set_everything_is_trained_on(folder):
    params = write_params(folder / "p.yaml", **{**SMALL, "dataset": "own.npz", "data": {"test_fraction": 0}})
    code, output, errors = run_here(params, "--out", folder / "run")
    assert code == 0, errors
    assert "all 40 labels are there to train on: nothing is held out" in output
    (record,) = records(folder / "run").values()
    assert record["test_error"] is None
    assert record["labels"] == record["n_train"] == 40
    assert os.path.getsize(folder / "run" / "report.html") > 1000
    assert nesi("predict", folder / "run", folder / "own.npz", "--out", folder / "p.csv")[0] == 0
