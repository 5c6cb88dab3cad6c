"""EMNIST from idx files, from the official zip and from Matlab files; images upright, labels from 0."""

from __future__ import annotations

import gzip
import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from made_files import idx_bytes
from scipy.io import savemat

from data_tools import DataError, load
from data_tools.inventory import inventory
from data_tools.sources import EMNIST_FILES

#: Upright pictures: a bright top row. The files hold them lying, column by column.
UPRIGHT = np.ones((6, 28, 28), dtype=np.uint8)
UPRIGHT[:, 0, :] = 200
LYING = UPRIGHT.transpose(0, 2, 1)


def files(split: str, labels: np.ndarray) -> dict[str, bytes]:
    contents = {}
    for part in ("train", "test"):
        contents[f"emnist-{split}-{part}-images-idx3-ubyte.gz"] = gzip.compress(idx_bytes(LYING))
        contents[f"emnist-{split}-{part}-labels-idx1-ubyte.gz"] = gzip.compress(idx_bytes(labels))
    return contents


def folder_of(tmp_path: Path) -> Path:
    folder = tmp_path / "emnist"
    folder.mkdir(exist_ok=True)
    return folder


def test_single_files_are_read_upright(tmp_path: Path) -> None:
    for name, content in files("byclass", np.array([0, 10, 36, 61, 5, 7])).items():
        (folder_of(tmp_path) / name).write_bytes(content)
    data = load("emnist-byclass", data_dir=tmp_path)
    assert np.array_equal(data.X_train.reshape(-1, 28, 28), UPRIGHT)
    assert [data.class_names[label] for label in data.y_train[:4]] == ["0", "A", "a", "z"]


def test_the_official_zip_is_read_without_unpacking(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with zipfile.ZipFile(folder / "gzip.zip", "w") as archive:
        for name, content in files("letters", np.array([1, 2, 3, 26, 1, 1])).items():
            archive.writestr(f"gzip/{name}", content)
    data = load("emnist-letters", data_dir=tmp_path)
    assert data.y_test.tolist() == [0, 1, 2, 25, 0, 0]
    assert len(data.class_names) == 26
    assert [path.name for path in folder.iterdir()] == ["gzip.zip"]
    with pytest.raises(DataError, match="lacks emnist-digits-train-images"):
        load("emnist-digits", data_dir=tmp_path)


def test_matlab_files_are_read_upright(tmp_path: Path) -> None:
    part = {"images": LYING.reshape(6, 784), "labels": np.array([[0], [46], [2], [3], [4], [5]], dtype=np.uint8)}
    savemat(folder_of(tmp_path) / "emnist-balanced.mat", {"dataset": {"train": part, "test": part}})
    data = load("emnist-balanced", data_dir=tmp_path)
    assert np.array_equal(data.X_test.reshape(-1, 28, 28), UPRIGHT)
    assert data.class_names[46] == "t"
    assert data.y_train.tolist() == [0, 46, 2, 3, 4, 5]


@pytest.mark.parametrize("content", [b"", b"MATLAB 5.0 MAT-file" + bytes(200), b"nonsense" * 50])
def test_a_damaged_matlab_file_is_named(tmp_path: Path, content: bytes) -> None:
    (folder_of(tmp_path) / "emnist-digits.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"emnist-digits.mat cannot be read"):
        load("emnist-digits", data_dir=tmp_path)


def test_a_label_beyond_the_classes_is_refused(tmp_path: Path) -> None:
    for name, content in files("digits", np.array([0, 1, 2, 3, 4, 10])).items():
        (folder_of(tmp_path) / name).write_bytes(content)
    with pytest.raises(DataError, match=r"labels from 0 to 10 .* expected 0 to 9"):
        load("emnist-digits", data_dir=tmp_path)


def test_classes_are_chosen_from_an_official_split(tmp_path: Path) -> None:
    for name, content in files("byclass", np.array([0, 10, 36, 61, 5, 37])).items():
        (folder_of(tmp_path) / name).write_bytes(content)
    letters = load("emnist-byclass", data_dir=tmp_path, classes="letters")
    assert letters.y_train.tolist() == [0, 26, 51, 27]
    assert len(letters.class_names) == 52
    assert np.array_equal(letters.X_train.reshape(-1, 28, 28), UPRIGHT[:4])
    assert load("emnist-byclass", data_dir=tmp_path, classes="digits").y_test.tolist() == [0, 5]
    assert load("emnist-byclass", data_dir=tmp_path, classes=["b", "A"]).y_train.tolist() == [1, 0]
    with pytest.raises(DataError, match='emnist-byclass has no class "-"'):
        load("emnist-byclass", data_dir=tmp_path, classes=["-"])
    with pytest.raises(DataError, match=r'classes is "leters" \(did you mean "letters"\?\)'):
        load("emnist-byclass", data_dir=tmp_path, classes="leters")


def test_single_files_of_the_official_archive_are_recognised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, content in files("byclass", np.array([0, 10, 36, 61, 5, 37])).items():
        (folder_of(tmp_path) / name).write_bytes(content)
    (finding,) = (found for found in inventory(tmp_path) if found.name == "emnist")
    assert (finding.state, finding.detail) == ("unchecked", "single files; those found have no known checksum")
    name = "emnist-byclass-test-images-idx3-ubyte.gz"
    content = (folder_of(tmp_path) / name).read_bytes()
    monkeypatch.setitem(EMNIST_FILES, name, (len(content), hashlib.sha256(content).hexdigest()[:12]))
    (finding,) = (found for found in inventory(tmp_path) if found.name == "emnist")
    assert finding.detail == f"single files; the SHA-256 of {name} matches, others are not known"
