"""What was trained is used: on new files, from a directory or from a saved model, and without pickles."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from command_line import nesi, run_here, write_params
from PIL import Image
from sklearn.datasets import dump_svmlight_file, load_digits
from small_networks import make_data, make_model

import data_tools
from data_tools import DataError, Preprocessing, preprocessing_of
from data_tools.new_points import load_new
from nesi import NeSiClassifier, NesiError, TrainedNetwork
from nesi.experiment.likeness import are_unlike, share_less_likely
from nesi.experiment.predictions import Predictor

pytestmark = pytest.mark.usefixtures("one_thread")

SMALL = {"networks": ["ff+"], "labels": ["all"], "runs": 1, "iterations": 8}
PIXELS, DIGITS = load_digits(return_X_y=True)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((15 * PIXELS[number].reshape(8, 8)).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def images(tmp_path_factory) -> Path:
    """A run on folders of images, half of them unlabeled, with what systems leave behind."""
    folder = tmp_path_factory.mktemp("images")
    for number in range(240):
        picture(
            folder / "data" / (f"digit {DIGITS[number]}" if number < 120 else "unlabeled") / f"{number}.png", number
        )
    (folder / "data" / "unlabeled" / "Thumbs.db").write_bytes(b"\0")
    (folder / "data" / "__MACOSX").mkdir()
    (folder / "data" / "__MACOSX" / "._1.png").write_bytes(b"\0")
    for number in range(240, 270):
        picture(folder / "new" / f"{number}.png", number)
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(folder / "new" / "black.png")
    params = write_params(folder / "p.yaml", dataset="data", **SMALL)
    with contextlib.chdir(folder):  # the path of the data is part of the seed
        code, output, errors = run_here(params, "--out", folder / "run")
    assert code == 0, errors
    assert f"predictions for unlabeled points: {folder / 'run' / 'predictions.csv'}" in output
    return folder


def test_images_that_were_not_trained_on_are_predicted(images):
    code, output = nesi("predict", images / "run", images / "new", "--out", images / "p.csv", "--probabilities")
    assert code == 0
    assert "31 points" in output
    assert "1 without content" in output
    found = rows((images / "p.csv").read_text())
    assert [row["point"] for row in found[:2]] == ["240.png", "241.png"]
    assert found[-1]["unlike_training"] == "no content"
    assert found[-1]["probability"] == "0.1000"
    X = np.stack([np.asarray((15 * PIXELS[n]).astype(np.uint8)) for n in range(240, 270)])
    network = Predictor.load(images / "run").network
    posterior = network.posterior(X)
    for row, p in zip(found[:-1], posterior, strict=True):
        assert row["class"] == f"digit {p.argmax()}"
        assert float(row["probability"]) == pytest.approx(p.max(), abs=1e-4)
        assert float(row["p(digit 3)"]) == pytest.approx(p[3], abs=1e-4)
    right = [row["class"] == f"digit {DIGITS[int(row['point'][:-4])]}" for row in found[:-1]]
    assert np.mean(right) > 0.7


def test_unlabeled_training_points_get_predictions_of_their_own(images):
    found = rows((images / "run" / "predictions.csv").read_text())
    assert len(found) == 120
    assert found[0]["point"] == "unlabeled/120.png"
    right = [row["class"] == f"digit {DIGITS[int(Path(row['point']).stem)]}" for row in found]
    assert np.mean(right) > 0.7


def test_a_run_that_was_killed_after_its_record_is_put_in_order(images, tmp_path):
    """The program writes the record, removes the checkpoint, and predicts; it may be killed in between."""
    shutil.copytree(images, tmp_path / "copy")
    run = tmp_path / "copy" / "run"
    predictions = (run / "predictions.csv").read_text()
    (run / "predictions.csv").unlink()
    (weights,) = (run / "weights").glob("*.npz")
    (run / "checkpoints" / weights.name).write_bytes(b"of a run that is done")
    with contextlib.chdir(tmp_path / "copy"):
        code, _, errors = run_here(tmp_path / "copy" / "p.yaml", "--out", run, "--resume")
    assert code == 0, errors
    assert (run / "predictions.csv").read_text() == predictions
    assert not list((run / "checkpoints").glob("*.npz"))


def test_the_estimator_of_a_run_predicts_the_same_and_reads_files(images, tmp_path):
    model = NeSiClassifier.from_run(images / "run")
    X = model.read(images / "new")
    with_content = X[:-1]
    assert nesi("predict", images / "run", images / "new", "--out", tmp_path / "p.csv")[0] == 0
    expected = [row["class"] for row in rows((tmp_path / "p.csv").read_text())]
    assert model.predict(with_content).tolist() == expected[:-1]
    assert model.classes_[0] == "digit 0"
    assert (model.network, model.n_subclasses, model.max_iter) == ("ff+", 40, 8)
    assert model.n_iter_ == len(model.log_likelihood_) == 8
    assert model.partial_fit(with_content, expected[:-1]).predict(with_content).shape == (30,)
    with pytest.raises(NesiError, match="holds no weights of 'r-L5-run1'; there are weights of ff"):
        NeSiClassifier.from_run(images / "run", "r-L5-run1")
    with pytest.raises(NesiError, match="from_run"):
        make_model().fit(*make_data()).read(images / "new")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "does not exist"),
        (lambda folder: _text(folder / "note.txt"), "not trained on texts"),
        (lambda folder: _saved(folder / "wide.npz", X=np.ones((2, 65))), "has 65 inputs, but the network was trained"),
        (lambda folder: _saved(folder / "no.npz", Z=np.ones((2, 64))), "expected X"),
        (lambda folder: _saved(folder / "minus.npz", X=-np.ones((2, 64))), "negative values"),
        (lambda folder: _saved(folder / "nan.npz", X=np.full((2, 64), np.nan)), "NaN"),
        (lambda folder: _text(folder / "narrow.csv", "1,2,3\n"), "3 columns, but the network was trained with 64"),
        (lambda folder: _empty(folder / "empty"), "holds no file"),
    ],
)
def test_new_data_that_does_not_fit_gets_one_sentence(images, tmp_path, make, message):
    code, output = nesi("predict", images / "run", make(tmp_path), "--out", tmp_path / "p.csv")
    assert code == 2
    assert message in output
    assert output.count("\n") == 1
    assert not (tmp_path / "p.csv").exists()


def _text(path: Path, text: str = "words") -> Path:
    path.write_text(text)
    return path


def _saved(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def test_other_mistakes_get_one_sentence(images, tmp_path):
    for arguments, message in [
        (("predict", tmp_path, images / "new"), "holds no records.jsonl"),
        (("predict", tmp_path / "no.npz", images / "new"), "no such file"),
        (("predict", images / "run", images / "new", "--run", "x"), "holds no weights of 'x'"),
        (("predict", images / "run", images / "new", "--out", tmp_path / "a" / "b.csv"), "no such directory"),
    ]:
        code, output = nesi(*arguments)
        assert code == 2
        assert message in output
        assert output.count("\n") == 1


# ---- every kind of data ----------------------------------------------------------------------------------------------


def test_texts_are_weighted_as_the_training_texts_were(tmp_path):
    for number in range(10):
        _in(tmp_path / "data" / "sport" / f"{number}.txt", "the match and the goal" + " ball" * number)
        _in(tmp_path / "data" / "cooking" / f"{number}.txt", "the soup and the salt" + " pan" * number)
    dataset = data_tools.load(tmp_path / "data", test_fraction=0.0)
    again = load_new(tmp_path / "data", preprocessing_of(dataset))
    assert [*again.names] == [*dataset.point_names]
    np.testing.assert_array_equal(again.X.toarray(), dataset.X_train.toarray())
    stored = json.loads(json.dumps(preprocessing_of(dataset).as_json()))
    one = load_new(_in(tmp_path / "new.txt", "unheard words and a GOAL"), Preprocessing.from_json(stored, "a file"))
    words = [word for word, value in zip(dataset.vocabulary, one.X.toarray()[0], strict=True) if value]
    assert words == ["goal"]
    assert load_new(_in(tmp_path / "other.txt", "nothing known"), preprocessing_of(dataset)).X.nnz == 0


def _in(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return _text(path, text)


def test_columns_of_a_table_are_found_by_name(tmp_path):
    lines = [f"{n},{n % 5 + 1},{'cat' if n % 2 else 'dog'},{n % 3 + 1}" for n in range(20)]
    path = _text(tmp_path / "own.csv", "\n".join(["nr,a,kind,b", *lines]))
    dataset = data_tools.load(path, label_column="kind", ignore_columns=["nr"], test_fraction=0.0)
    how = preprocessing_of(dataset)
    assert how.columns == ("a", "b")
    new = load_new(_text(tmp_path / "new.csv", "b,nr,a\n7,x17,8\n5,x18,6\n"), how)
    assert new.X.tolist() == [[8, 7], [6, 5]]
    assert new.names == ["x17", "x18"]
    with pytest.raises(DataError, match=r"has no column 'b' \(1 missing\)"):
        load_new(_text(tmp_path / "less.csv", "a,nr\n7,1\n"), how)
    whole = load_new(path, how)
    np.testing.assert_array_equal(whole.X, dataset.X_train)


def test_a_table_without_a_header_may_lack_the_label(tmp_path):
    path = _text(tmp_path / "own.csv", "1,2,cat\n3,4,dog\n" * 5)
    how = preprocessing_of(data_tools.load(path))
    assert load_new(_text(tmp_path / "new.csv", "5,6\n7,8\n"), how).X.tolist() == [[5, 6], [7, 8]]
    assert load_new(path, how).X[:2].tolist() == [[1, 2], [3, 4]]


def test_sparse_points_and_stacks_of_images_are_read(tmp_path):
    X = np.eye(4, 6) + 1
    dump_svmlight_file(X[:, :4], np.zeros(4), str(tmp_path / "new.svm"))
    read = load_new(tmp_path / "new.svm", Preprocessing(6))
    assert sp.issparse(read.X)
    assert read.X.shape == (4, 6)
    stack = load_new(_saved(tmp_path / "new.npz", X=X.reshape(4, 2, 3)), Preprocessing(6))
    np.testing.assert_array_equal(stack.X, X)
    assert stack.names == ["0", "1", "2", "3"]


def test_resized_and_inverted_images_are_so_again(tmp_path):
    for name in ("a", "b"):
        for number in range(3):
            picture(tmp_path / "data" / name / f"{number}.png", number)
    dataset = data_tools.load(tmp_path / "data", resize=[4, 5], invert=True, test_fraction=0.0)
    new = load_new(tmp_path / "data", preprocessing_of(dataset))
    np.testing.assert_array_equal(new.X, dataset.X_train)
    assert new.X.shape == (6, 20)


# ---- saved models ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    X, labels = make_data()
    words = np.array(["ape", "bee", "cat"], dtype=object)
    y = [None if label < 0 else words[label] for label in labels]
    return make_model(max_iter=5, class_prior=np.array([0.5, 0.3, 0.2])).fit(X, y)


def test_a_saved_model_is_the_same_after_loading(fitted, tmp_path):
    X, _ = make_data()
    fitted.save(tmp_path / "model.npz", X)
    loaded = NeSiClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    np.testing.assert_array_equal(loaded.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(loaded.score_samples(X), fitted.score_samples(X))
    np.testing.assert_array_equal(loaded.class_prior_, fitted.class_prior_)
    np.testing.assert_array_equal(loaded.class_prior, fitted.class_prior)
    assert {k: v for k, v in loaded.get_params().items() if k != "class_prior"} == {
        k: v for k, v in fitted.get_params().items() if k != "class_prior"
    }
    assert (loaded.n_iter_, loaded.seen_, loaded.n_features_in_) == (5, fitted.seen_, 10)
    np.testing.assert_array_equal(TrainedNetwork.load(tmp_path / "model.npz").W, fitted.W_)
    loaded.partial_fit(X, fitted.predict(X))
    with np.load(tmp_path / "model.npz", allow_pickle=False) as archive:
        assert not any(archive[name].dtype.hasobject for name in archive.files)


def test_new_points_are_predicted_from_a_saved_model(fitted, tmp_path):
    X, _ = make_data()
    fitted.save(tmp_path / "with_points.npz", X)
    fitted.save(tmp_path / "model.npz")
    new = _saved(tmp_path / "new.npz", X=X[:5])
    for file, answers in (("model.npz", {""}), ("with_points.npz", {"no"})):
        code, output = nesi("predict", tmp_path / file, new, "--out", tmp_path / "p.csv")
        assert code == 0, output
        found = rows((tmp_path / "p.csv").read_text())
        assert [row["class"] for row in found] == fitted.predict(X[:5]).tolist()
        assert {row["unlike_training"] for row in found} == answers


@pytest.mark.parametrize("names", [np.array([3, 5, 8]), np.array([True, False]), np.array(["a", "b"])])
def test_classes_keep_their_type_on_disk(names, tmp_path):
    X, labels = make_data(K=len(names))
    y = names[labels % len(names)]
    model = make_model(max_iter=1).fit(X, y)
    model.save(tmp_path / "m.npz")
    loaded = NeSiClassifier.load(tmp_path / "m.npz")
    assert loaded.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(loaded.classes_, model.classes_)


# ---- unlike anything seen --------------------------------------------------------------------------------------------


def test_the_share_of_less_likely_training_points():
    quantiles = np.linspace(-100, -50, 1001)
    np.testing.assert_allclose(share_less_likely(quantiles, np.array([-200, -100, -75, -50, 0])), [0, 0, 0.5, 1, 1])
    assert are_unlike(quantiles, np.array([-113, -112, -75, np.nan])).tolist() == [True, False, False, False]


def test_points_of_another_world_are_unlike_those_of_the_training(images, tmp_path):
    shuffled = PIXELS[:50][:, np.random.default_rng(0).permutation(64)]
    known = PIXELS[270:320]
    _saved(tmp_path / "shuffled.npz", X=shuffled)
    _saved(tmp_path / "known.npz", X=known)
    predictor = Predictor.load(images / "run")
    strange, ordinary = (predictor.predict_files(tmp_path / f"{name}.npz") for name in ("shuffled", "known"))
    assert strange.unlike.mean() > 0.9
    assert ordinary.unlike.mean() < 0.2  # by writers whom the few training points don't include
