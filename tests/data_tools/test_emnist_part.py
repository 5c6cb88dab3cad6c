"""Digits and letters of SD19 in EMNIST's format: upright, with class names, checked, and damaged files named."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest
from made_files import idx_bytes, write_idx

from data_tools import DataError, emnist_part, load
from data_tools.inventory import inventory

RNG = np.random.default_rng(18)
TRAIN, TEST, MORE = (RNG.integers(1, 256, (n, 28, 28), dtype=np.uint8) for n in (7, 3, 4))
DIGITS = np.array([0, 9, 1, 8, 2, 7, 3]), np.array([4, 0, 9])
LETTERS = np.array([0, 25, 26, 51, 14, 40, 0]), np.array([14, 40, 1])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Small files of both sets, whose checksums take the place of the real ones."""
    folder = tmp_path / "emnist-part"
    folder.mkdir()
    contents = {"letters-unlabeled-images-idx3-ubyte": MORE.transpose(0, 2, 1)}
    for kind, (y_train, y_test) in (("digits", DIGITS), ("letters", LETTERS)):
        for part, images, labels in (("train", TRAIN, y_train), ("test", TEST, y_test)):
            contents[f"{kind}-{part}-images-idx3-ubyte"] = images.transpose(0, 2, 1)
            contents[f"{kind}-{part}-labels-idx1-ubyte"] = labels
    for stem, array in contents.items():
        write_idx(folder / f"{stem}.gz", array)
        monkeypatch.setitem(emnist_part.CHECKSUMS, stem, hashlib.sha256(idx_bytes(array)).hexdigest())
    return folder


def test_both_sets_are_upright_and_have_class_names(folder: Path) -> None:
    digits = load("emnist-part-digits", data_dir=folder.parent)
    letters = load("emnist-part-letters", data_dir=folder.parent)
    for data, (y_train, y_test) in ((digits, DIGITS), (letters, LETTERS)):
        assert np.array_equal(data.X_train.reshape(-1, 28, 28), TRAIN)
        assert np.array_equal(data.X_test.reshape(-1, 28, 28), TEST)
        assert data.X_train.dtype == np.uint8
        assert data.y_train.tolist() == y_train.tolist()
        assert data.y_test.tolist() == y_test.tolist()
    assert digits.class_names == tuple("0123456789")
    assert [letters.class_names[k] for k in (0, 25, 26, 51)] == ["A", "Z", "a", "z"]


def test_unlabeled_letters_join_the_training_set_on_request(folder: Path) -> None:
    data = load("emnist-part-letters", data_dir=folder.parent, unlabeled=True)
    assert data.y_train.tolist() == [*LETTERS[0].tolist(), -1, -1, -1, -1]
    assert np.array_equal(data.X_train[7:].reshape(-1, 28, 28), MORE)
    assert data.y_test.tolist() == LETTERS[1].tolist()
    with pytest.raises(DataError, match="unlabeled is 'yes', expected true or false"):
        load("emnist-part-letters", data_dir=folder.parent, unlabeled="yes")
    with pytest.raises(DataError, match='emnist-part-digits has no option "unlabeled"'):
        load("emnist-part-digits", data_dir=folder.parent, unlabeled=True)


def test_classes_are_chosen_by_name_or_by_group(folder: Path) -> None:
    vowels = load("emnist-part-letters", data_dir=folder.parent, classes=["o", "O", "A"], unlabeled=True)
    assert vowels.class_names == ("o", "O", "A")
    assert vowels.y_train.tolist() == [2, 1, 0, 2, -1, -1, -1, -1]
    upper = load("emnist-part-letters", data_dir=folder.parent, classes="upper")
    assert upper.y_train.tolist() == [0, 25, 14, 0]
    with pytest.raises(DataError, match=r'classes is "uper" \(did you mean "upper"\?\)'):
        load("emnist-part-letters", data_dir=folder.parent, classes="uper")


def test_a_file_may_be_unpacked(folder: Path) -> None:
    packed = folder / "digits-train-images-idx3-ubyte.gz"
    (folder / "digits-train-images-idx3-ubyte").write_bytes(gzip.decompress(packed.read_bytes()))
    packed.unlink()
    assert len(load("emnist-part-digits", data_dir=folder.parent).y_train) == 7


def test_a_missing_file_is_named(folder: Path) -> None:
    (folder / "letters-unlabeled-images-idx3-ubyte.gz").unlink()
    assert len(load("emnist-part-letters", data_dir=folder.parent).y_train) == 7  # it is only needed on request
    with pytest.raises(DataError, match=r"lacks letters-unlabeled-images-idx3-ubyte\.gz .* copy the file there"):
        load("emnist-part-letters", data_dir=folder.parent, unlabeled=True)
    (folder / "digits-test-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(DataError, match=r"lacks digits-test-labels-idx1-ubyte\.gz"):
        load("emnist-part-digits", data_dir=folder.parent)


def test_a_missing_folder_says_what_to_put_where(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no public source; put digits-.* into .*emnist-part"):
        load("emnist-part-digits", data_dir=tmp_path)


@pytest.mark.parametrize("stem", ["digits-train-images-idx3-ubyte", "digits-test-labels-idx1-ubyte"])
@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "longer", "swapped"])
def test_a_damaged_file_is_named(folder: Path, stem: str, damage: str) -> None:
    path = folder / f"{stem}.gz"
    content = path.read_bytes()
    plain = bytearray(gzip.decompress(content))
    plain[-1] ^= 1
    other = folder / f"{stem.replace('digits', 'letters')}.gz"
    path.write_bytes(
        {
            "cut": content[:-9],
            "flipped": gzip.compress(bytes(plain)),  # a sound file with one wrong bit: only the checksum can tell
            "empty": b"",
            "text": b"<html>not found</html>",
            "longer": gzip.compress(gzip.decompress(content) + b"0"),
            # Both sets have the same images here, so only their labels can be mistaken for one another.
            "swapped": other.read_bytes() if "labels" in stem else gzip.compress(idx_bytes(TRAIN)),
        }[damage]
    )
    with pytest.raises(DataError, match=f"{stem}.*(again|different kind of file)"):
        load("emnist-part-digits", data_dir=folder.parent)
    (finding,) = (found for found in inventory(folder.parent) if found.name == "emnist-part")
    assert finding.state == "WRONG"
    assert stem in finding.detail


def test_the_inventory_checks_all_files(folder: Path) -> None:
    (finding,) = (found for found in inventory(folder.parent) if found.name == "emnist-part")
    assert (finding.state, finding.detail) == ("ok", "9 files, SHA-256 matches")


@pytest.mark.real_data
def test_the_real_files(real_data: Path) -> None:
    digits = load("emnist-part-digits", data_dir=real_data)
    letters = load("emnist-part-letters", data_dir=real_data, unlabeled=True)
    assert (len(digits.y_train), len(digits.y_test)) == (90731, 57918)
    assert (len(letters.y_train), len(letters.y_test)) == (58405 + 43325, 8200)
    counts = np.bincount(letters.y_train[:58405], minlength=52)
    assert (letters.class_names[counts.argmax()], counts.max(), counts.min()) == ("O", 4156, 317)
    # Upright: an I is taller than wide, and the ink of an L is at its left and its foot.
    mean = {name: letters.X_train[:58405][letters.y_train[:58405] == k].mean(axis=0).reshape(28, 28) for k, name in
            enumerate(letters.class_names)}  # fmt: skip
    assert np.ptp(np.flatnonzero(mean["I"].max(axis=1) > 60)) > np.ptp(np.flatnonzero(mean["I"].max(axis=0) > 60))
    assert mean["L"][14:, :14].sum() > 2 * mean["L"][:14, 14:].sum()
