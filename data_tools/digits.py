"""scikit-learn's 8x8 digits: 1797 images that come with the library, so no download is needed."""

from __future__ import annotations

import numpy as np

from data_tools.dataset import Dataset
from data_tools.split import stratified_split


def load_digits(test_fraction: float = 0.2, seed: int = 0) -> Dataset:
    """Values 0..16. There is no official split, so a stratified one is drawn; the same seed gives the same split."""
    from sklearn.datasets import load_digits as load_bundled_digits

    bundled = load_bundled_digits()
    X, y = bundled.data.astype(np.uint8), bundled.target.astype(np.int64)
    train, test = stratified_split(y, test_fraction, seed)
    return Dataset("digits", X[train], y[train], X[test], y[test], tuple("0123456789"), image_shape=(8, 8))
