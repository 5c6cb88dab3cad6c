"""A network as an ONNX graph answers as the network itself, in onnxruntime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from command_line import nesi, run_here, write_params
from small_networks import make_data, make_model

import data_tools
from nesi import NeSiClassifier
from nesi.networks import NETWORKS

pytestmark = pytest.mark.usefixtures("one_thread")


def answers(path, X, dtype="float32"):
    onnx.checker.check_model(onnx.load(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return session.run(["label", "probabilities"], {"points": X.astype(dtype)})


@pytest.mark.parametrize(
    "settings",
    [{"network": name} for name in NETWORKS]
    + [{"dtype": "float64"}, {"committee": 2}, {"network": "r", "class_prior": [0.7, 0.2, 0.1]}],
)
def test_probabilities_and_labels_are_those_of_the_estimator(settings, tmp_path):
    X, labels = make_data()
    model = make_model(max_iter=5, **settings).fit(X, labels + 4 * (labels >= 0))
    model.to_onnx(tmp_path / "network.onnx")
    label, probabilities = answers(tmp_path / "network.onnx", X, settings.get("dtype", "float32"))
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(label, model.predict(X))
    assert label.dtype == np.int64


def test_classes_may_be_words_and_empty_points_get_the_prior(tmp_path):
    X, labels = make_data()
    words = np.array(["ape", "bee", "cat"])[labels]
    model = make_model(max_iter=5, class_prior=[0.2, 0.5, 0.3]).fit(X, words)
    model.to_onnx(tmp_path / "network.onnx")
    X = np.concatenate([X, np.zeros((1, 10))])
    label, probabilities = answers(tmp_path / "network.onnx", X)
    assert label[:-1].tolist() == model.predict(X[:-1]).tolist()
    np.testing.assert_allclose(probabilities[-1], [0.2, 0.5, 0.3], rtol=1e-6)
    assert label[-1] == "bee"


def test_a_run_is_exported_by_one_command(tmp_path):
    params = write_params(tmp_path / "p.yaml", networks=["ff+"], runs=1, iterations=3)
    assert run_here(params, "--out", tmp_path / "run", "--quiet")[0] == 0
    code, output = nesi("export-onnx", tmp_path / "run", "--out", tmp_path / "network.onnx")
    assert code == 0, output
    X = data_tools.load("digits").X_test
    label, probabilities = answers(tmp_path / "network.onnx", X)
    model = NeSiClassifier.from_run(tmp_path / "run")
    np.testing.assert_allclose(probabilities, model.predict_proba(X), atol=1e-4)
    assert [int(name) for name in label] == model.predict(X).tolist()
    code, output = nesi("export-onnx", tmp_path / "nowhere", "--out", tmp_path / "other.onnx")
    assert code == 2
    assert not (tmp_path / "other.onnx").exists()
