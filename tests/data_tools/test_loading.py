"""Names, options, places and the sentence a user reads when something is not there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_tools import NAMES, DataError, Dataset, load
from data_tools.locations import search_dirs


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("mnits", "mnist"),
        ("fashion", "fashion-mnist"),
        ("newsgroups", "newsgroups20"),
        ("emnist", "emnist-"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(DataError, match=f'no data set "{name}".*did you mean "({nearest})'):
        load(name)


def test_an_unknown_option_names_the_nearest() -> None:
    with pytest.raises(DataError, match=r'digits has no option "test_fracton".*did you mean "test_fraction"'):
        load("digits", test_fracton=0.1)


def test_options_of_one_data_set_are_not_those_of_another(tmp_path: Path) -> None:
    (tmp_path / "nist" / "by_class").mkdir(parents=True)
    with pytest.raises(DataError, match='no option "name"'):
        load("nist-digits", data_dir=tmp_path, name="nist-letters")


@pytest.mark.parametrize("wrong", [1.0, -0.1, "half", None, True])
def test_a_wrong_value_of_an_option_is_said(wrong: object) -> None:
    with pytest.raises(DataError, match=r"test_fraction|wrong value"):
        load("digits", test_fraction=wrong)


@pytest.mark.parametrize("options", [{"n_train": "many"}, {"seed": -1}, {"seed": "a"}])
def test_a_wrong_type_of_an_option_is_said(options: dict) -> None:
    with pytest.raises(DataError, match=rf"wrong value.*{next(iter(options))}="):
        load("generated", **options)


@pytest.mark.parametrize("name", ["mnist", "newsgroups6", "nist-digits", "emnist-letters"])
def test_missing_data_is_said_with_place_and_remedy(name: str, tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=f"{name} was not found in {tmp_path}.*python -m data_tools fetch .*put its files"
    ):
        load(name, data_dir=tmp_path, fetch=False)


def test_data_without_a_public_source_says_where_to_put_it(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=f"put ocr-letters-16x8.npz into {tmp_path}"):
        load("ocr-letters", data_dir=tmp_path)


def test_large_data_sets_are_not_fetched_unasked(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="fetch nist"):
        load("nist-digits", data_dir=tmp_path)


def test_a_data_folder_that_does_not_exist_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="does not exist"):
        load("mnist", data_dir=tmp_path / "nowhere")


def test_paths_that_do_not_exist_or_have_no_known_ending_are_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"own.npz does not exist"):
        load(tmp_path / "own.npz")
    (tmp_path / "own.xlsx").write_bytes(b"")
    with pytest.raises(DataError, match="unknown file extension"):
        load(tmp_path / "own.xlsx")


def test_places_are_searched_in_the_documented_order(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NESI_DATA", "/somewhere/else")
    assert search_dirs(tmp_path)[:3] == [tmp_path, Path("/somewhere/else"), cache]


def test_a_data_set_checks_itself() -> None:
    y = np.zeros(2, dtype=np.int64)
    ones = np.ones((2, 3), dtype=np.float32)
    with pytest.raises(DataError, match="test labels run from -1"):
        Dataset("made", ones, y, ones, y - 1, ("a",))
    with pytest.raises(DataError, match="2 words for 3 inputs"):
        Dataset("made", ones, y, ones, y, ("a",), vocabulary=("x", "y"))
    with pytest.raises(DataError, match="no training point"):
        Dataset("made", ones[:0], y[:0], ones, y, ("a",))
    assert "2 training and 2 test points, 3 inputs, 1 class>" in repr(Dataset("made", ones, y, ones, y, ("a",)))


def test_loaders_know_nothing_about_networks() -> None:
    script = (
        "import pkgutil, importlib, sys, data_tools\n"
        "for m in pkgutil.iter_modules(data_tools.__path__):\n"
        "    m.name == '__main__' or importlib.import_module('data_tools.' + m.name)\n"
        "assert not [m for m in sys.modules if m.split('.')[0] in ('nesi', 'pytensor')]"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_the_names_are_those_of_the_design() -> None:
    assert {
        "mnist",
        "fashion-mnist",
        "newsgroups20",
        "newsgroups6",
        "nist-digits",
        "nist-letters",
        "nist-vowels",
    } <= set(NAMES)
