"""The preprocessing of Section 4.4, on boxes whose result can be told in advance and on the real vowels."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_files import character_png
from PIL import Image

from data_tools import load
from data_tools.nist_images import BadImage, preprocessed_pixels, raw_pixels


def centre_of_mass(pictures: np.ndarray) -> np.ndarray:
    """Row and column of the centre of each picture of shape (n, 28, 28)."""
    pictures = pictures.astype(np.float64)
    mass = pictures.sum(axis=(1, 2))
    rows = pictures.sum(axis=2) @ np.arange(28) / mass
    columns = pictures.sum(axis=1) @ np.arange(28) / mass
    return np.stack([rows, columns], axis=1)


def ink_extent(pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Height and width of the ink's bounding box."""
    extents = []
    for axis in (2, 1):
        inked = pictures.any(axis=axis)
        extents.append(28 - inked.argmax(axis=1) - inked[:, ::-1].argmax(axis=1))
    return extents[0], extents[1]


def test_a_square_fills_the_twenty_by_twenty_pixels_in_the_middle() -> None:
    picture = preprocessed_pixels(character_png(box=(10, 70, 50, 110))).reshape(28, 28)
    expected = np.zeros((28, 28))
    expected[4:24, 4:24] = 255
    assert np.array_equal(picture, expected)


def test_a_tall_stroke_keeps_its_shape() -> None:
    # 40 high and 10 wide, so 20 high and 5 wide after scaling by one half.
    picture = preprocessed_pixels(character_png(box=(100, 20, 110, 60))).reshape(1, 28, 28)
    height, width = ink_extent(picture)
    assert height[0] == 20
    assert 5 <= width[0] <= 7  # anti-aliased edges


def test_ink_is_high_and_the_background_is_zero() -> None:
    png = character_png(box=(30, 30, 60, 60))
    assert preprocessed_pixels(png)[0] == 0
    assert raw_pixels(png).reshape(128, 128)[40, 40] == 255
    assert raw_pixels(png, invert=False).reshape(128, 128)[40, 40] == 0


def test_a_lopsided_character_loses_no_ink() -> None:
    # A thick foot under a long thin stem: centring its 20x20 form by mass would cut the stem's end off.
    pixels = np.full((128, 128), 255, dtype=np.uint8)
    pixels[10:110, 60] = 0
    pixels[100:110, 20:110] = 0
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    picture = preprocessed_pixels(stream.getvalue()).reshape(1, 28, 28)
    assert np.abs(centre_of_mass(picture) - 13.5).max() <= 0.5
    height, width = ink_extent(picture)
    assert 14 <= height[0] < 20
    assert width[0] <= 20


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 126), st.integers(0, 126), st.integers(1, 127), st.integers(1, 127), st.integers(0, 10**6))
def test_any_ink_is_centred_and_inside(left: int, top: int, width: int, height: int, seed: int) -> None:
    pixels = np.full((128, 128), 255, dtype=np.uint8)
    patch = pixels[top : top + height, left : left + width]
    patch[np.random.default_rng(seed).random(patch.shape) < 0.3] = 0
    patch[0, 0] = 0
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    picture = preprocessed_pixels(stream.getvalue()).reshape(1, 28, 28)
    assert np.abs(centre_of_mass(picture) - 13.5).max() <= 0.5
    assert max(extent[0] for extent in ink_extent(picture)) <= 20


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"no image at all", "cannot be read"),
        (character_png()[:100], "cannot be read"),
        (character_png(size=64), "64x64 pixels, expected 128x128"),
        (character_png(box=(0, 0, 0, 0)), "is blank"),
    ],
)
def test_what_is_wrong_with_an_image_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(BadImage, match=reason):
        preprocessed_pixels(content)


@pytest.mark.real_data
def test_the_real_vowels_are_centred_inside_and_distinguishable(real_data: Path) -> None:
    vowels = load("nist-vowels", data_dir=real_data, progress=False)
    assert vowels.X_train.shape == (8000, 784)
    assert vowels.X_test.shape == (2000, 784)
    assert vowels.class_names == tuple("AEIOUaeiou")
    assert np.bincount(vowels.y_train).tolist() == [800] * 10
    pictures = np.concatenate([vowels.X_train, vowels.X_test]).reshape(-1, 28, 28)
    assert np.abs(centre_of_mass(pictures) - 13.5).max() <= 0.5
    height, width = ink_extent(pictures)
    assert max(height.max(), width.max()) <= 20
    assert (np.maximum(height, width) == 20).mean() > 0.99
    assert pictures.max() == 255
    # A person tells them apart, so class means must do far better than chance (90 % error) too.
    X = vowels.X_train / vowels.X_train.sum(axis=1, keepdims=True)
    means = np.array([X[vowels.y_train == k].mean(axis=0) for k in range(10)]) + 1e-4
    error = np.mean((vowels.X_test @ np.log(means).T).argmax(axis=1) != vowels.y_test)
    assert error < 0.45


@pytest.mark.real_data
def test_the_raw_vowels_keep_all_their_pixels(real_data: Path) -> None:
    vowels = load("nist-vowels", data_dir=real_data, raw=True, progress=False)
    assert vowels.X_train.shape == (8000, 16384)
    assert vowels.image_shape == (128, 128)
    assert np.isin(vowels.X_train[:100], [0, 255]).all()
    assert (vowels.X_train[:100] == 0).mean() > 0.8  # mostly background
