"""The by_class tree of NIST SD19: split, archives, damage, path traversal, cache."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from made_files import character_png, reporting_only_data_errors

from data_tools import DataError, load
from data_tools.archives import member_names, read_members
from data_tools.image_pipeline import convert_images
from data_tools.nist import OFFICIAL_COUNTS
from data_tools.nist_images import preprocessed_pixels

Maker = Callable[..., Path]


def packed(tree: Path, kind: str) -> Path:
    """The tree as nist/by_class.<kind>, and the tree itself gone."""
    form = {"zip": "zip", "tar": "tar", "tar.gz": "gztar", "tar.xz": "xztar"}[kind]
    shutil.make_archive(str(tree), form, root_dir=tree.parent, base_dir=tree.name)
    shutil.rmtree(tree)
    return tree.parent / f"{tree.name}.{kind}"


def test_hsf_4_is_the_test_set(by_class: Maker, tmp_path: Path) -> None:
    by_class()
    digits = load("nist-digits", data_dir=tmp_path)
    assert digits.X_train.shape == (30, 784)
    assert digits.X_test.shape == (20, 784)
    assert np.bincount(digits.y_train).tolist() == [3] * 10
    assert digits.class_names == tuple("0123456789")


def test_every_picture_lands_in_its_own_row(by_class: Maker, tmp_path: Path) -> None:
    tree = by_class()
    digits = load("nist-digits", data_dir=tmp_path)
    expected = preprocessed_pixels((tree / "37" / "hsf_4" / "hsf_4_00001.png").read_bytes())
    rows = np.flatnonzero((digits.X_test == expected).all(axis=1))
    assert digits.y_test[rows].tolist() == [7]


def test_the_gathered_training_folder_is_not_counted_twice(by_class: Maker, tmp_path: Path) -> None:
    by_class({"hsf_0": 2, "hsf_1": 1, "hsf_4": 2, "train_<hex>": 3})
    digits = load("nist-digits", data_dir=tmp_path)
    assert (len(digits.y_train), len(digits.y_test)) == (30, 20)


def test_hidden_and_other_files_are_passed_over(by_class: Maker, tmp_path: Path) -> None:
    tree = by_class()
    (tree / "30" / "hsf_0" / "._hsf_0_00000.png").write_bytes(b"resource fork")
    (tree / "30" / "hsf_0.mit").write_text("hsf_0_00000.png f0000_14 ...")
    assert len(load("nist-digits", data_dir=tmp_path).y_train) == 30


def test_numbers_that_are_not_the_papers_are_said(
    by_class: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OFFICIAL_COUNTS, "nist-digits", (31, 20))
    by_class()
    with pytest.warns(UserWarning, match="30 training and 20 test images, the paper has 31 and 20"):
        load("nist-digits", data_dir=tmp_path)


def test_letters_are_case_sensitive(by_class: Maker, tmp_path: Path) -> None:
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    by_class({"hsf_3": 1, "hsf_4": 1}, classes="01" + letters)
    data = load("nist-letters", data_dir=tmp_path)
    assert "".join(data.class_names) == letters
    assert data.y_train.tolist() == list(range(52))


def test_without_hsf_4_the_split_is_drawn_and_reproducible(by_class: Maker, tmp_path: Path) -> None:
    by_class({"hsf_0": 10})
    first = load("nist-digits", data_dir=tmp_path, test_fraction=0.3, seed=5)
    again = load("nist-digits", data_dir=tmp_path, test_fraction=0.3, seed=5)
    other = load("nist-digits", data_dir=tmp_path, test_fraction=0.3, seed=6)
    assert np.bincount(first.y_test).tolist() == [3] * 10
    assert np.array_equal(first.X_test, again.X_test)
    assert not np.array_equal(first.X_test, other.X_test)


def test_a_given_list_is_the_test_set(by_class: Maker, tmp_path: Path) -> None:
    by_class({"hsf_0": 3})
    listed = tmp_path / "test.txt"
    listed.write_text("30/hsf_0/hsf_0_00002.png\n39/hsf_0/hsf_0_00000.png\n")
    assert load("nist-digits", data_dir=tmp_path, test_list=str(listed)).y_test.tolist() == [0, 9]
    listed.write_text("30/hsf_0/hsf_0_00099.png\n")
    with pytest.raises(DataError, match=r"hsf_0_00099.png, which is not an image"):
        load("nist-digits", data_dir=tmp_path, test_list=str(listed))


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz"])
def test_an_archive_gives_the_same_as_the_tree_and_nothing_is_unpacked(
    by_class: Maker, tmp_path: Path, kind: str
) -> None:
    tree = by_class()
    from_tree = load("nist-digits", data_dir=tmp_path)
    archive = packed(tree, kind)
    from_archive = load("nist-digits", data_dir=tmp_path)
    assert list((tmp_path / "nist").iterdir()) == [archive]
    order = [np.lexsort(data.X_train.T) for data in (from_tree, from_archive)]
    assert np.array_equal(from_tree.X_train[order[0]], from_archive.X_train[order[1]])
    assert np.array_equal(from_tree.y_train[order[0]], from_archive.y_train[order[1]])


def test_many_processes_give_what_one_gives(tmp_path: Path) -> None:
    pngs = [(row, character_png(row)) for row in range(40)]
    alone, together = np.zeros((40, 784), np.uint8), np.zeros((40, 784), np.uint8)
    assert convert_images(pngs, preprocessed_pixels, alone, workers=1) == {}
    assert convert_images(iter(pngs), preprocessed_pixels, together, workers=2) == {}
    assert alone.any(axis=1).all()
    assert np.array_equal(alone, together)


@pytest.mark.parametrize("form", ["stdin", "file"])
def test_scripts_without_a_main_guard_can_use_many_processes(by_class: Maker, tmp_path: Path, form: str) -> None:
    by_class()
    script = (
        "import data_tools\n"
        f"digits = data_tools.load('nist-digits', data_dir={str(tmp_path)!r}, workers=2, seed=77)\n"
        "print(digits)\n"
    )
    (tmp_path / "script.py").write_text(script)
    answer = subprocess.run(
        [sys.executable, "-" if form == "stdin" else str(tmp_path / "script.py")],
        input=script if form == "stdin" else None,
        env={**os.environ, "NESI_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert answer.stderr == ""
    assert answer.stdout == "<Dataset nist-digits: 30 training and 20 test points, 784 inputs, 10 classes>\n"


def test_a_changed_tree_is_prepared_again(by_class: Maker, tmp_path: Path) -> None:
    tree = by_class()
    before = load("nist-digits", data_dir=tmp_path)
    (tree / "30" / "hsf_0" / "hsf_0_00000.png").write_bytes(character_png(box=(1, 1, 100, 9)))
    after = load("nist-digits", data_dir=tmp_path)
    assert (before.X_train != after.X_train).any(axis=1).sum() == 1


def test_a_damaged_cache_is_made_again(by_class: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NESI_CACHE", str(tmp_path / "cache"))
    by_class()
    before = load("nist-digits", data_dir=tmp_path)
    (kept,) = (tmp_path / "cache" / "prepared").iterdir()
    for content in (b"", b"nonsense", kept.read_bytes()[:500]):
        kept.write_bytes(content)
        assert np.array_equal(load("nist-digits", data_dir=tmp_path).X_train, before.X_train)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"GIF87a no", "cannot be read as an image"),
        (character_png()[:120], "cannot be read as an image"),
        (character_png(size=100), "is 100x100"),
        (character_png(box=(0, 0, 0, 0)), "is blank"),
    ],
)
def test_a_damaged_image_is_named_or_left_out(by_class: Maker, tmp_path: Path, content: bytes, reason: str) -> None:
    (by_class() / "33" / "hsf_1" / "hsf_1_00000.png").write_bytes(content)
    with pytest.raises(DataError, match=rf"33/hsf_1/hsf_1_00000.png {reason}"):
        load("nist-digits", data_dir=tmp_path)
    with pytest.warns(UserWarning, match="leaving out 1 of 50 images"):
        digits = load("nist-digits", data_dir=tmp_path, on_damage="skip")
    assert np.bincount(digits.y_train).tolist() == [3, 3, 3, 2, 3, 3, 3, 3, 3, 3]
    assert digits.X_train.any(axis=1).all()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("30/train_31/train_31_00000.png", "labeled '0' by its class folder but '1'"),
        ("30/hsf_0/hsf_1_00009.png", "does not start with hsf_0_"),
        ("zz/hsf_0/hsf_0_00000.png", "is in folder zz"),
        ("30/writers/hsf_0_00000.png", "is in folder writers"),
        ("lost.png", "arrange it like by_class"),
    ],
)
def test_a_misplaced_image_is_named(by_class: Maker, tmp_path: Path, name: str, reason: str) -> None:
    tree = packed(by_class(), "zip")
    with zipfile.ZipFile(tree, "a") as archive:
        archive.writestr(f"by_class/{name}" if "/" in name else name, character_png())
    with pytest.raises(DataError, match=reason):
        load("nist-digits", data_dir=tmp_path)


def test_a_missing_class_is_named(by_class: Maker, tmp_path: Path) -> None:
    by_class(classes="012345678")
    with pytest.raises(DataError, match="no image of 9"):
        load("nist-digits", data_dir=tmp_path)


def tar_with(path: Path, *members: tarfile.TarInfo) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            content = character_png()
            member.size = len(content) if member.isfile() else 0
            tar.addfile(member, io.BytesIO(content) if member.isfile() else None)
    return path


@pytest.mark.parametrize(
    "name", ["../evil.png", "/tmp/evil.png", "30/../../../evil.png", "C:/evil.png", "..\\evil.png", "a/b\\..\\..\\c"]
)
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_member_that_points_outside_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    folder = tmp_path / "inner" / "nist"
    folder.mkdir(parents=True)
    archive = folder / f"by_class.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as opened:
            opened.writestr(zipfile.ZipInfo(name), character_png())
    else:
        tar_with(archive, tarfile.TarInfo(name))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DataError, match="points outside") as caught:
        load("nist-digits", data_dir=tmp_path / "inner")
    assert str(archive) in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before


def test_links_in_an_archive_are_refused(tmp_path: Path) -> None:
    link = tarfile.TarInfo("30/hsf_0/hsf_0_00000.png")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with pytest.raises(DataError, match="link or a device"):
        list(member_names(tar_with(tmp_path / "by_class.tar", link)))


def test_a_decompression_bomb_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "by_class.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("30/hsf_0/hsf_0_00000.png", bytes(5_000_000))
    with pytest.raises(DataError, match="unpacks to more than"):
        list(read_members(archive, lambda _: True, 1 << 20))


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar.xz"])
@pytest.mark.parametrize("content", [b"", b"this is no archive" * 100])
def test_what_is_no_archive_is_named(tmp_path: Path, kind: str, content: bytes) -> None:
    (tmp_path / "nist").mkdir()
    archive = tmp_path / "nist" / f"by_class.{kind}"
    archive.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot be read as an archive|holds no .png") as caught:
        load("nist-digits", data_dir=tmp_path)
    assert str(archive) in str(caught.value)


@pytest.fixture(scope="module")
def small_archives(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    place = tmp_path_factory.mktemp("archives")
    archives = {}
    with zipfile.ZipFile(place / "a.zip", "w", zipfile.ZIP_DEFLATED) as opened:
        for i in range(3):
            opened.writestr(f"by_class/30/hsf_{i}/hsf_{i}_00000.png", character_png(i))
    archives["zip"] = (place / "a.zip").read_bytes()
    for kind, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.xz", "w:xz")):
        with tarfile.open(place / f"a.{kind}", mode) as tar:  # type: ignore[call-overload]
            for i in range(3):
                info = tarfile.TarInfo(f"by_class/30/hsf_{i}/hsf_{i}_00000.png")
                info.size = len(character_png(i))
                tar.addfile(info, io.BytesIO(character_png(i)))
        archives[kind] = (place / f"a.{kind}").read_bytes()
    return archives


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_damage_to_an_archive_gives_only_the_modules_own_error(
    small_archives: dict[str, bytes], tmp_path: Path, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(small_archives)))
    content = bytearray(small_archives[kind])
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        content = content[: data.draw(st.integers(0, len(content)))]
    path = tmp_path / f"fuzzed.{kind}"
    path.write_bytes(bytes(content))
    with warnings.catch_warnings(), reporting_only_data_errors(str(path)):
        warnings.simplefilter("ignore")  # zipfile warns about doubled names
        list(member_names(path))
        list(read_members(path, lambda _: True, 1 << 20))
