"""Files of models that were altered, or written by somebody else: one sentence, whatever they hold."""

from __future__ import annotations

import numpy as np
import pytest
from small_networks import make_data, make_model

from data_tools import DataError
from nesi import NeSiClassifier, NesiError
from nesi.experiment.likeness import QUANTILES
from nesi.experiment.predictions import Predictor
from nesi.storage.arrays import load_described_arrays, save_arrays

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def fitted():
    return make_model(max_iter=2, class_prior=np.array([0.5, 0.3, 0.2])).fit(*make_data())


def test_files_that_hold_no_model_are_refused(fitted, tmp_path):
    (tmp_path / "junk.npz").write_bytes(b"junk")
    with pytest.raises(NesiError, match="damaged or not written by NeSi"):
        NeSiClassifier.load(tmp_path / "junk.npz")
    fitted._network().save(tmp_path / "weights.npz")
    with pytest.raises(NesiError, match="from_run"):
        NeSiClassifier.load(tmp_path / "weights.npz")
    fitted.save(tmp_path / "m.npz")
    arrays, about = load_described_arrays(tmp_path / "m.npz")
    for change in (
        {"classes": ["a"]},
        {"classes": ["a", "a", "b"]},
        {"classes": 3},
        {"parameters": {"unheard": 1}},
        {"parameters": []},
        {"n_iter": None},
        {"n_iter": 1e400},
        {"classes_type": "V"},
        {"classes_type": "<U999999999"},
        {"seen": [1]},
        {"seen": 3},
        {"feature_names": ["only one"]},
    ):
        broken = {**about, "estimator": {**about["estimator"], **change}}
        save_arrays(tmp_path / "broken.npz", arrays, broken)
        with pytest.raises(NesiError, match="damaged or not"):
            NeSiClassifier.load(tmp_path / "broken.npz")
    for data in (
        5,
        {"class_names": 5},
        {"class_names": ["a"]},
        {"preprocessing": {"n_inputs": 3}},
        {"preprocessing": 1},
        {"preprocessing": {"n_inputs": 10, "label_column": {}}},
        {"preprocessing": {"n_inputs": 10, "image_shape": [1, 2, 3]}},
        {"preprocessing": {"n_inputs": 10, "from a later version": True}},
    ):
        save_arrays(tmp_path / "broken.npz", arrays, {**about, "data": data})
        with pytest.raises((NesiError, DataError), match=r"damaged|says nothing usable|is not known"):
            Predictor.load(tmp_path / "broken.npz")
    for quantiles in (
        np.zeros((2, 2)),
        np.array([3.0, 1.0]),
        np.array([np.nan, 1.0]),
        np.zeros(0),
        np.array(["a", "b"]),
    ):
        save_arrays(tmp_path / "broken.npz", {**arrays, QUANTILES: quantiles}, about)
        with pytest.raises(NesiError, match="likelihoods of the training points"):
            Predictor.load(tmp_path / "broken.npz")


def test_likelihoods_of_any_precision_are_taken(fitted, tmp_path):
    X, _ = make_data()
    fitted.save(tmp_path / "m.npz", X)
    arrays, about = load_described_arrays(tmp_path / "m.npz")
    save_arrays(tmp_path / "long.npz", {**arrays, QUANTILES: arrays[QUANTILES].astype(np.longdouble)}, about)
    usual, long = (Predictor.load(tmp_path / name).quantiles for name in ("m.npz", "long.npz"))
    assert long.dtype == np.float64
    np.testing.assert_array_equal(usual, long)
