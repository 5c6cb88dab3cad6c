"""Data sets that need no files: scikit-learn's digits and points drawn from the model; and the OCR letters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from data_tools import DataError, load
from data_tools.generated import GeneratedDataset, generate


def test_digits_are_split_the_same_way_every_time() -> None:
    first, second = load("digits"), load("digits")
    assert first.X_train.shape == (1438, 64)
    assert first.X_test.shape == (359, 64)
    assert first.X_train.dtype == np.uint8
    assert np.array_equal(first.X_test, second.X_test)
    assert abs(np.bincount(first.y_test) - 36).max() <= 1
    assert first.image_shape == (8, 8)


def test_generated_points_follow_the_known_weights() -> None:
    data = generate(n_train=20000, n_test=10, n_classes=3, n_subclasses=6, side=4, A=60, seed=1)
    assert isinstance(data, GeneratedDataset)
    assert data.W is not None
    assert data.R is not None
    assert data.units_train is not None
    assert data.W.sum(axis=1) == pytest.approx(60)
    assert data.R.sum(axis=1) == pytest.approx(1)
    # p(c | k) = R_kc, and the mean of unit c's points is W_c; both within five standard errors.
    for k in range(3):
        shares = np.bincount(data.units_train[data.y_train == k], minlength=6) / np.sum(data.y_train == k)
        assert np.abs(shares - data.R[k]).max() < 5 * 0.5 / np.sqrt(20000 / 3)
    for c in range(6):
        own = data.X_train[data.units_train == c]
        standard_error = np.sqrt(data.W[c] / len(own))
        assert (np.abs(own.mean(axis=0) - data.W[c]) < 5 * standard_error).all()
        # Poisson: the variance equals the mean.
        assert own.var(axis=0) == pytest.approx(data.W[c], rel=0.2)


def test_generation_is_reproducible_and_seeded() -> None:
    assert np.array_equal(load("generated", seed=3).X_train, load("generated", seed=3).X_train)
    assert not np.array_equal(load("generated", seed=3).X_train, load("generated", seed=4).X_train)


def test_own_weights_can_be_given() -> None:
    W, R = np.array([[90.0, 10.0], [10.0, 90.0]]), np.array([[0.0, 1.0], [1.0, 0.0]])
    data = generate(n_train=200, n_test=5, W=W, R=R)
    assert data.units_train is not None
    assert np.array_equal(data.units_train, 1 - data.y_train)
    assert data.image_shape is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"n_subclasses": 2, "n_classes": 4}, "at least one per class"),
        ({"side": 2, "n_subclasses": 50}, "only 6 pairs"),
        ({"n_train": 0}, "at least 1"),
        ({"W": np.ones((2, 3)), "R": np.ones((2, 2))}, "does not sum to 1"),
        ({"W": np.ones((2, 3)), "R": np.ones((2, 5))}, "expected"),
    ],
)
def test_impossible_models_are_refused(options: dict, reason: str) -> None:
    with pytest.raises(DataError, match=reason):
        generate(**options)


@pytest.mark.real_data
def test_ocr_letters_are_sixteen_by_eight_bits(real_data: Path) -> None:
    letters = load("ocr-letters", data_dir=real_data)
    assert letters.X_train.shape[0] + letters.X_test.shape[0] == 52152
    assert letters.image_shape == (16, 8)
    assert set(np.unique(letters.X_train)) == {0, 1}
    assert len(np.unique(letters.y_train)) == 26
    with pytest.raises(DataError, match="no fold 12"):
        load("ocr-letters", data_dir=real_data, test_fold=12)


def test_damaged_ocr_letters_are_named(tmp_path: Path) -> None:
    (tmp_path / "nist").mkdir()
    path = tmp_path / "nist" / "ocr-letters-16x8.npz"
    path.write_bytes(b"PK nonsense")
    with pytest.raises(DataError, match="ocr-letters"):
        load("ocr-letters", data_dir=tmp_path)
    per_word = np.array([2, 1], np.uint8)
    np.savez(
        path, bits=np.ones((3, 16), np.uint8), labels=np.arange(2, dtype=np.uint8), folds=per_word, word_len=per_word
    )
    with pytest.raises(DataError, match="do not fit"):
        load("ocr-letters", data_dir=tmp_path)
