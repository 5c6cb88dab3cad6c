"""Data without any label: one command trains and asks, and what the person says becomes predictions."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command_line import nesi, run_here, wait_for, write_params
from labeling_server import serving
from PIL import Image
from sklearn.datasets import load_digits

import data_tools
from data_tools.errors import NoLabels
from nesi import NeSiClassifier, NesiError
from nesi.labeling.from_data import trained_without_labels
from nesi.labeling.naming import Naming
from nesi.labeling.run_to_label import run_to_label
from nesi.labeling.session import LabelingSession

pytestmark = pytest.mark.usefixtures("one_thread")
PIXELS, DIGITS = load_digits(return_X_y=True)
ZEROS_AND_ONES = np.flatnonzero(DIGITS < 2)[:120]
ROUND, UPRIGHT = "round", "upright"


def true_name(point: str) -> str:
    return (ROUND, UPRIGHT)[DIGITS[int(Path(point).stem)]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Images side by side in one folder."""
    folder = tmp_path_factory.mktemp("no_labels")
    (folder / "images").mkdir()
    for number in ZEROS_AND_ONES:
        image = Image.fromarray((15 * PIXELS[number].reshape(8, 8)).astype(np.uint8))
        image.save(folder / "images" / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def trained(folder) -> Path:
    with contextlib.chdir(folder):
        return folder / trained_without_labels("images", f"{ROUND}, {UPRIGHT}", None, None, {}, None)


def answered(trained: Path) -> LabelingSession:
    """A person who knows what they see: the class of most points that a field wins."""
    run = run_to_label(trained, None, None)
    session = LabelingSession(run, 10, "informative")
    winners = np.asarray(run.activities.argmax(axis=1)).ravel()
    names = [true_name(name) for name in run.dataset.point_names]
    for _ in range(8):
        field = session.state()["current"]["field"]
        won = [names[point] for point in np.flatnonzero(winners == field)] or [ROUND]
        session.answer(field, [1, 0] if won.count(ROUND) >= len(won) / 2 else [0, 1])
    return session


def test_one_command_leads_from_images_to_predictions(folder, trained):
    with contextlib.chdir(folder):
        code, output = nesi("predict", trained, "images")
        assert code == 2
        assert f"nobody has labeled the fields of ff+-L0-run1 yet; type: nesi label {trained}" in output
        session = answered(trained)
        session.train()
        session._round.wait()
        result = session.state()["training"]
        assert result["status"] == "done"
        assert result["test_error_after"] is None
        with open(result["predictions"]) as stream:
            found = list(csv.DictReader(stream))
        assert len(found) == 120
        assert np.mean([row["class"] == true_name(row["point"]) for row in found]) > 0.95
        code, output = nesi("predict", trained, "images", "--out", "p.csv")
        assert code == 0
        assert "with labeled fields" in output
        assert Path("p.csv").read_text() == Path(result["predictions"]).read_text()
        model = NeSiClassifier.from_run(trained)
        assert list(model.classes_) == [ROUND, UPRIGHT]
        assert model.predict(model.read("images")).tolist() == [row["class"] for row in found]


def test_the_page_is_served_after_training(folder, tmp_path):
    images = folder / "images"
    with serving(images, "--classes", "a,b", "--out", tmp_path / "run", "--set", "iterations=3", "C=10") as server:
        cookie = server.log_in()
        state = json.loads(server.request("/api/state", cookie=cookie)[2])
        assert [entry["name"] for entry in state["classes"]] == ["a", "b"]
        assert state["n_train"] == 120
        answer = {"field": state["current"]["field"], "weights": [1, 0]}
        assert server.request("/api/answer", answer, cookie)[0] == 200
        assert server.request("/api/train", {}, cookie)[0] == 200

        def done() -> bool:
            status, _, body = server.request("/api/state", cookie=cookie)
            return status == 200 and json.loads(body)["training"]["status"] == "done"

        wait_for(done, server.process, timeout=60)
        code, _ = server.end()
        assert code == 0
        assert f"predictions for unlabeled points: {tmp_path / 'run' / 'predictions.csv'}" in server.after
        assert f"for new data: nesi predict {tmp_path / 'run'} NEW_DATA" in server.after


def test_the_same_command_goes_on_where_it_was(folder, trained):
    before = (trained / "records.jsonl").read_text()
    with contextlib.chdir(folder):
        assert folder / trained_without_labels("images", None, None, None, {}, None) == trained
        assert folder / trained_without_labels("images", f"{ROUND},{UPRIGHT}", None, None, {}, None) == trained
        with pytest.raises(NesiError, match=r"'data'.*choose another --out"):
            trained_without_labels("images", "other,names", None, None, {}, None)
    assert (trained / "records.jsonl").read_text() == before


def test_a_table_without_a_column_of_labels_shows_its_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = np.random.default_rng(0).integers(1, 9, size=(60, 3))
    Path("t.csv").write_text("\n".join(["sun,rain,wind", *(",".join(map(str, row)) for row in rows)]))
    directory = trained_without_labels("t.csv", "good,bad", None, None, {"iterations": 2, "C": 6}, None)
    assert directory == Path("runs/label-t")
    session = LabelingSession(run_to_label(directory, None, None), 5, "informative")
    words = {entry["word"] for entry in session.state()["current"]["words"]}
    assert words <= {"sun", "rain", "wind"}


def test_points_that_have_labels_are_learned_from(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    y = np.where(np.arange(120) < 30, DIGITS[ZEROS_AND_ONES], -1)
    np.savez("some.npz", X=PIXELS[ZEROS_AND_ONES], y=y)
    directory = trained_without_labels("some.npz", None, None, None, {"iterations": 5}, None)
    (record,) = [json.loads(line) for line in (directory / "records.jsonl").read_text().splitlines()]
    assert record["labels"] == 24  # a fifth is held out
    assert record["test_error"] is not None
    assert (directory / "predictions.csv").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["images", "--classes", "a"], "at least two different names"),
        (["images", "--classes", "a,a"], "at least two different names"),
        (["images", "--classes", "a,,b"], "at least two different names"),
        (["digits"], "every training point of digits has a label"),
        (["nowhere", "--classes", "a,b"], "nowhere is not data"),
        (["images", "--classes", "a,b", "--set", "unheard=1"], "unknown key 'unheard'"),
    ],
)
def test_wrong_calls_get_one_sentence(folder, arguments, message, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    code, output = nesi(
        "label", *arguments, "--no-browser", *([] if arguments[0] == "nowhere" else ["--out", tmp_path])
    )
    assert code == 2
    assert message in output
    assert output.count("\n") == 1


def test_names_that_are_no_names_are_refused_and_names_are_given_once():
    naming = Naming("images")
    for wrong in (None, [], {}, {"names": "cat"}, {"names": ["cat", 1]}, {"names": ["a" * 101, "b"]}):
        with pytest.raises(NesiError, match=r"form|characters"):
            naming.give(wrong)
    for wrong in ([], ["cat"], ["cat", " "], ["cat", " cat"]):
        with pytest.raises(NesiError, match="two different names"):
            naming.give({"names": wrong})
    assert naming.state() == {"data": "images", "named": None}
    naming.give({"names": [" cat", "dog"]})
    with pytest.raises(NesiError, match="named already"):
        naming.give({"names": ["a", "b"]})
    assert naming.wait() == ["cat", "dog"]


def test_data_without_labels_is_refused_with_the_way_out(folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    with pytest.raises(NoLabels, match="nesi label images --classes a,b,c"):
        data_tools.load("images")
    with pytest.raises(NesiError, match="images has no label: name its classes"):
        trained_without_labels("images", None, tmp_path / "run", None, {}, None)


def test_a_run_that_waits_for_a_person_says_what_to_type(tmp_path):
    waits = {
        "labels": [0],
        "networks": ["ff"],
        "runs": 1,
        "iterations": 2,
        "field_labels": {"fields": 5, "by": "person"},
    }
    code, output, _ = run_here(write_params(tmp_path / "p.yaml", **waits), "--out", tmp_path / "run")
    assert code == 0
    assert f"the fields wait for a person to label them; type: nesi label {tmp_path / 'run'}" in output
