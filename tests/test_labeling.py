"""What is behind the labeling page: the log of answers, the session, and wrong calls of the command."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from command_line import run_here, write_params

from nesi.cli import main
from nesi.errors import NesiError
from nesi.labeling.answers import AnswerLog
from nesi.labeling.pictures import picture, words
from nesi.labeling.run_to_label import run_to_label
from nesi.labeling.session import Busy, LabelingSession, UnknownField, class_keys
from nesi.labeling.texts import LONGEST_TEXT, document, says_little
from nesi.storage.records import append_record, locked


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network that was trained with labels of points: its fields have classes already."""
    folder = tmp_path_factory.mktemp("labeling")
    params = write_params(folder / "p.yaml", networks=["ff", "r+"], labels=[20], runs=1, iterations=40)
    assert run_here(params, "--out", folder / "out", "--quiet")[0] == 0
    return folder / "out"


@pytest.fixture
def directory(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "out")


def new_log(folder: Path, weights: str = "abc") -> AnswerLog:
    return AnswerLog(folder, "r+-L0-run1", weights, n_fields=5, n_classes=3)


def test_answers_survive_and_add_up(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.answer(4, [0, 1, 0])
    log.answer(2, None)
    log.answer(1, [1, 0, 3])
    log.answer(0, [1, 0, 0])
    log.undo()
    log.answer(4, [0, 0, 1])
    for again in (log, new_log(tmp_path)):
        assert list(again.latest) == [4, 2, 1]
        assert set(again.answers) == {4, 1}
        np.testing.assert_allclose(again.answers[4], [0, 0, 1])
        np.testing.assert_allclose(again.answers[1], [0.25, 0, 0.75])
        assert again.digest == log.digest
    log.undo()  # of the second answer to field 4: the first one counts again
    np.testing.assert_allclose(new_log(tmp_path).answers[4], [0, 1, 0])
    assert new_log(tmp_path).digest != ""


def test_a_torn_line_costs_that_line(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.answer(4, [0, 1, 0])
    with open(tmp_path / "answers.jsonl", "a") as stream:
        stream.write('{"run": "r+-L0-run1", "event": "ans')
    log = new_log(tmp_path)
    log.answer(3, [0, 1, 0])
    assert list(new_log(tmp_path).latest) == [4, 3]


def test_answers_for_other_weights_or_by_nobody_are_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    log.answer(4, [0, 1, 0])
    with pytest.raises(NesiError, match="answers for other weights"):
        new_log(tmp_path, weights="def")
    for field in (5, -1, True, "1", None):
        with pytest.raises(NesiError, match="does not exist"):
            log.answer(field, [1, 0, 0])


def test_answers_that_cannot_be_read_are_set_aside(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    for field in (4, 3, 2, 1):
        log.answer(field, [0, 1, 0])
    log.undo()
    path = tmp_path / "answers.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b"[0.0, 1.0, 0.0]", b"[0.0, 7.0, 0.0]")
    lines[3] = b"nonsense\n"  # was taken back, as the last line says
    about = {"run": "r+-L0-run1", "weights": "abc", "event": "answer"}
    append_record(tmp_path, {**about, "field": 99, "answer": None}, "answers.jsonl")
    append_record(tmp_path, {**about, "field": 0, "answer": [0, 0, 0]}, "answers.jsonl")
    lines += path.read_bytes().splitlines(keepends=True)[-2:]
    path.write_bytes(b"".join(lines))
    log = new_log(tmp_path)
    assert "could not be read in line 2, 4, 6, 7; 2 answers are left" in str(log.notice)
    assert list(log.latest) == [4, 2]
    assert (tmp_path / "answers-unreadable-1.jsonl").read_bytes() == b"".join(lines)
    again = new_log(tmp_path)
    assert again.notice is None
    assert list(again.latest) == [4, 2]
    again.undo()
    assert list(new_log(tmp_path).latest) == [4]


def test_a_network_that_has_classes_starts_with_them(directory: Path) -> None:
    network = run_to_label(directory, "r+-L20-run1", None)
    session = LabelingSession(network, 5, "informative")
    state = session.state()
    assert state["decided"] > 0.2  # before any answer
    assert len(set(state["current"]["beliefs"])) > 1
    assert state["training"] == {"status": "none"}
    with pytest.raises(UnknownField):
        session.describe(int(np.setdiff1d(np.arange(40), [state["current"]["field"]])[0]))
    session.answer(state["current"]["field"], np.eye(10)[0].tolist())
    session.train()
    with pytest.raises(Busy):
        session.undo()
    assert session._round is not None
    session._round.wait()
    result = session.state()["training"]
    assert (result["status"], result["current"]) == ("done", True)
    assert result["test_error_before"] == network.record["test_error"]
    assert result["iterations"] == 40
    session.undo()
    assert session.state()["training"]["current"] is False


def test_ff_sets_the_classes_and_is_tested_at_once(directory: Path) -> None:
    session = LabelingSession(run_to_label(directory, "ff-L20-run1", None), 5, "random")
    field = session.state()["current"]["field"]
    session.answer(field, np.eye(10)[0].tolist())
    session.train()
    assert session._round is not None
    session._round.wait()
    result = session.state()["training"]
    assert result["iterations"] == 0
    assert result["test_error_after"] == result["test_error_with_labels"]


def test_a_training_can_be_stopped_early(directory: Path) -> None:
    network = run_to_label(directory, "r+-L20-run1", None)
    session = LabelingSession(network, 5, "random")
    session.answer(session.state()["current"]["field"], np.eye(10)[0].tolist())
    session.train()
    session.stop_training()
    assert session._round is not None
    session._round.wait()
    assert session.state()["training"]["iterations"] == 1


def test_keys_are_the_classes_themselves_or_numbers() -> None:
    assert class_keys(list("0123456789")) == list("0123456789")
    assert class_keys(["A", "a"]) == ["A", "a"]
    assert class_keys(["comp", "rec"]) == ["1", "2"]
    many = class_keys([f"class {number}" for number in range(40)])
    assert many[:11] == [*"1234567890", "a"]
    assert many[35:] == ["z", None, None, None, None]


def test_pictures_and_words() -> None:
    from io import BytesIO

    from PIL import Image

    image = np.asarray(Image.open(BytesIO(picture(np.array([1.0, 2.0, 3.0, 1.0]), (2, 2)))))
    np.testing.assert_array_equal(image, [[255, 128], [0, 255]])
    assert np.asarray(Image.open(BytesIO(picture(np.ones(4), (2, 2))))).tolist() == [[255, 255], [255, 255]]
    found = words(np.array([1.0, 3.0, 2.0, 1.0]), ["a", "<b>", "c", "d"])
    assert found == [{"word": "<b>", "strength": 1.0}, {"word": "c", "strength": 0.5}]
    assert words(np.array([1.0, 3.0]), None)[0]["word"] == "input 1"


def test_of_points_with_the_same_activity_those_that_look_most_like_the_field_are_shown(directory: Path) -> None:
    run = run_to_label(directory, None, None)
    rounded = np.round(run.activities.toarray(), 2)
    field = int(np.argmax((rounded == 1).sum(axis=0)))
    certain = np.flatnonzero(rounded[:, field] == 1)
    X, expected = np.asarray(run.points, dtype=np.float64)[certain], run.W[field] - run.W[field].min()
    cosine = X @ expected / np.linalg.norm(X, axis=1)
    count = min(6, len(certain))
    assert count > 1
    found = run.examples(field, count)
    assert found == certain[np.argsort(-cosine)][:count].tolist()
    assert run.examples(field, count) is found, "the page asks again at each answer, and while training goes on"


def test_words_that_say_little_and_the_text_of_a_point(tmp_path: Path) -> None:
    vocabulary = ["the", "x", "sea", "ship", "rail"]
    X = np.zeros((20, 5))
    X[:, 2], X[:10, 3], X[:11, 4] = 1, 1, 1
    assert says_little(X, vocabulary).tolist() == [True, True, True, False, True], "stop word, letter, in most texts"
    hidden = says_little(X[:19], vocabulary)
    assert hidden.tolist() == [True, True, False, False, False], "too few texts to tell which words are common"
    assert words(np.array([9.0, 0.0, 2.0, 1.0, 0.0]), vocabulary, hidden=hidden)[0] == {"word": "sea", "strength": 1.0}
    assert words(np.array([9.0, 0.0]), vocabulary[:2], hidden=hidden[:2])[0]["word"] == "the", "nothing else is left"

    row = np.array([5.0, 0.0, 1.0, 2.0, 0.0])
    (tmp_path / "a.txt").write_text("The ship.\nAll of it.")
    (tmp_path / "b.txt").write_bytes(b"\0")
    assert document(tmp_path / "a.txt", row, vocabulary, hidden, 7)["text"] == "The ship.\nAll of it."
    for gone in (None, tmp_path / "b.txt", tmp_path / "c.txt"):
        assert document(gone, row, vocabulary, hidden, 7) == {"name": "text 7", "text": "ship sea", "whole": False}
    (tmp_path / "a.txt").write_text("word " * 10_000)
    long = document(tmp_path / "a.txt", row, vocabulary, hidden, 7)
    assert (len(long["text"]), long["whole"]) == (LONGEST_TEXT, False)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["nowhere"], "nowhere: no such directory"),
        (["{directory}", "--run", "r-L1-run1"], "no weights of 'r-L1-run1'; there are weights of"),
        (["{directory}", "--port", "70000"], "--port is 70000"),
        (["{directory}", "--fields", "0"], "--fields is 0"),
        (["{directory}", "--choose", "best"], "invalid choice: 'best'"),
    ],
)
def test_wrong_calls_get_one_sentence(
    options: list[str], sentence: str, directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["label", *(option.format(directory=directory) for option in options)]) == 2
    errors = capsys.readouterr().err
    assert sentence in errors
    assert errors.count("\n") == 1


def test_two_pages_cannot_write_to_one_run(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = directory / "labeling" / "ff-L20-run1"
    place.mkdir(parents=True)
    with locked(place):
        assert main(["label", str(directory), "--run", "ff-L20-run1", "--no-browser"]) == 2
    assert "is in use by another" in capsys.readouterr().err


def test_runs_without_weights_are_refused(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(directory / "weights")
    assert main(["label", str(directory)]) == 2
    assert "keep_weights" in capsys.readouterr().err


@pytest.mark.real_data
def test_texts_are_shown_by_their_strongest_words(real_data: Path, tmp_path: Path) -> None:
    params = write_params(
        tmp_path / "p.yaml",
        dataset="newsgroups6",
        A=80000,
        C=20,
        iterations=3,
        networks=["ff"],
        labels=[0],
        runs=1,
        field_labels={"fields": 20, "by": "person"},
    )
    assert run_here(params, "--out", tmp_path / "out", "--quiet", "--data-dir", real_data)[0] == 0
    session = LabelingSession(run_to_label(tmp_path / "out", None, real_data), 20, "informative")
    state = session.state()
    assert state["kind"] == "texts"
    assert len(state["current"]["words"]) == 16
    assert state["current"]["words"][0]["strength"] == 1
    assert not {entry["word"] for entry in state["current"]["words"]} & {"the", "and", "of", "to", "in"}
    documents = state["current"]["documents"]
    assert len(documents) == 6
    assert all(len(example["text"].split()) > 3 and not example["whole"] for example in documents), "only counts"
    with pytest.raises(UnknownField, match="not images"):
        session.point_picture(0)
    assert [entry["key"] for entry in state["classes"]] == ["1", "2", "3", "4", "5", "6"]
