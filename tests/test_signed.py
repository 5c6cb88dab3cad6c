"""Features with a sign: positive and negative parts side by side, chosen by itself, in training and afterwards."""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import scipy.sparse as sp
from command_line import nesi, run_here, write_params
from small_networks import make_data, make_model

import data_tools
from data_tools import DataError
from data_tools.signed import in_two_parts
from nesi import NeSiClassifier, NesiError

pytestmark = pytest.mark.usefixtures("one_thread")


def signed_data(N=60):
    """Classes that differ in signs alone."""
    rng = np.random.default_rng(0)
    classes = np.arange(N) % 3
    signs = np.array([[1, 1, -1, -1, 1, 1], [-1, 1, 1, -1, -1, 1], [1, -1, 1, 1, -1, -1]])
    return signs[classes] * (0.5 + rng.random((N, 6))), np.where(np.arange(N) < 12, classes, -1), classes


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_the_parts_add_up_and_are_never_negative(layout):
    X, _, _ = signed_data()
    parts = in_two_parts(layout(X))
    dense = parts.toarray() if sp.issparse(parts) else parts
    np.testing.assert_array_equal(dense[:, :6] - dense[:, 6:], X)
    assert (dense >= 0).all()
    assert (dense[:, :6] * dense[:, 6:] == 0).all()


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_negative_values_are_noticed_and_learned_from(layout):
    X, labels, classes = signed_data()
    settings = {"n_subclasses": 6, "normalization": 60.0, "max_iter": 40}
    with pytest.warns(UserWarning, match=r"smallest is -1\.\d+\): positive and negative parts .* 12 in all"):
        model = make_model(**settings).fit(layout(X), labels)
    assert model.signed_
    assert model.W_.shape == (6, 12)
    assert model.n_features_in_ == 6
    assert np.mean(model.predict(layout(X)) == classes) > 0.95
    by_hand = make_model(**settings).fit(in_two_parts(layout(X)), labels)
    np.testing.assert_array_equal(model.W_, by_hand.W_)
    np.testing.assert_array_equal(model.predict_proba(layout(X)), by_hand.predict_proba(in_two_parts(layout(X))))
    points, _ = model.sample(50, random_state=0)
    assert points.shape == (50, 6)
    assert points.min() < 0 < points.max()


def test_who_asks_for_it_is_not_warned_and_positive_data_is_left_alone():
    X, labels, _ = signed_data()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_model(signed="split", network="ff", max_iter=1).fit(np.abs(X), labels).W_.shape == (6, 12)
        model = make_model(network="ff", max_iter=1).fit(np.abs(X), labels)
    assert not model.signed_
    with pytest.raises(NesiError, match=r"Negative values in data: the smallest is .* train with signed='split'"):
        model.predict(X)
    with pytest.raises(NesiError, match="Negative values"):
        make_model(signed="no").fit(X, labels)
    with pytest.raises(NesiError, match="signed is 'both', but must be one of 'auto', 'measured', 'range'"):
        make_model(signed="both").fit(X, labels)


def test_a_stream_keeps_the_choice_of_its_first_part():
    X, labels, _ = signed_data()
    model = make_model(signed="split").partial_fit(np.abs(X), labels)
    model.partial_fit(X, labels)
    assert model.W_.shape == (6, 12)
    with pytest.raises(NesiError, match="Negative values"):
        make_model().partial_fit(np.abs(X), labels).partial_fit(X, labels)


def test_a_saved_model_and_its_graph_split_as_well(tmp_path):
    X, labels, _ = signed_data()
    model = make_model(signed="split", max_iter=5).fit(X, labels)
    model.save(tmp_path / "m.npz")
    loaded = NeSiClassifier.load(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert (loaded.signed_, loaded.n_features_in_) == (True, 6)
    np.savez(tmp_path / "new.npz", X=X)
    assert nesi("predict", tmp_path / "m.npz", tmp_path / "new.npz", "--out", tmp_path / "p.csv")[0] == 0
    with open(tmp_path / "p.csv") as stream:
        assert [int(row["class"]) for row in csv.DictReader(stream)] == model.predict(X).tolist()
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    (probabilities,) = session.run(["probabilities"], {"points": X.astype("float32")})
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)


def test_a_run_on_embeddings_tells_and_predicts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, labels, classes = signed_data(120)
    lines = [",".join([*(f"{value:.4f}" for value in x), str(k)]) for x, k in zip(X, labels, strict=True)]
    Path("e.csv").write_text("\n".join(["a,b,c,d,e,f,label", *lines]))
    settings = {"dataset": "e.csv", "C": 6, "A": 60, "networks": ["ff+"], "labels": ["all"], "runs": 1}
    code, _, errors = run_here(write_params(tmp_path / "p.yaml", **settings, data={"test_fraction": 0}), "--out", "run")
    assert code == 0, errors
    assert "warning: e.csv: The data has negative values" in errors
    assert nesi("predict", "run", "e.csv", "--out", "p.csv")[0] == 0
    with open("p.csv") as stream:
        found = [int(row["class"]) for row in csv.DictReader(stream)]
    assert np.mean(np.array(found) == classes) > 0.95
    model = NeSiClassifier.from_run("run")
    assert model.predict(X).tolist() == found
    np.testing.assert_allclose(model.read("e.csv"), X, atol=1e-4)


def test_the_option_of_own_data(tmp_path):
    X, labels = make_data()
    np.savez(tmp_path / "own.npz", X=X - 3, y=labels, image_shape=[2, 5])
    with pytest.warns(UserWarning, match="negative values"):
        data = data_tools.load(tmp_path / "own.npz")
    assert data.X_train.shape[1] == 20
    assert data.image_shape is None
    assert data_tools.load(tmp_path / "own.npz", signed="split").preprocessing.signed
    for signed, message in (("no", "negative values"), ("both", "expected one of auto, measured, range, split, no")):
        with pytest.raises(DataError, match=message):
            data_tools.load(tmp_path / "own.npz", signed=signed)
