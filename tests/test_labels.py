"""Class-balanced label draws and the tuning split."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nesi.errors import NesiError
from nesi.labels import balanced_shares, draw_labels, mask_labels, tuning_split


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(seed))


def labels_with(*counts: int, unlabeled: int = 0) -> np.ndarray:
    y = np.concatenate([np.full(count, k) for k, count in enumerate(counts)] + [np.full(unlabeled, -1)])
    return generator(99).permutation(y)


def test_ten_labels_per_class_are_ten_per_class() -> None:
    y = labels_with(200, 300, 250)
    chosen = draw_labels(y, 30, generator())
    assert np.bincount(y[chosen]).tolist() == [10, 10, 10]
    assert (np.diff(chosen) > 0).all()
    assert chosen.dtype == np.int64


def test_the_same_seed_gives_the_same_indices_and_another_seed_others() -> None:
    y = labels_with(200, 300, 250)
    assert np.array_equal(draw_labels(y, 30, generator(1)), draw_labels(y, 30, generator(1)))
    assert not np.array_equal(draw_labels(y, 30, generator(1)), draw_labels(y, 30, generator(2)))


def test_a_small_class_gives_all_and_the_others_share_the_rest() -> None:
    # As in the authors' program: 3 + 5 points are all taken, the other two classes make up for them.
    y = labels_with(3, 100, 5, 100)
    assert np.bincount(y[draw_labels(y, 40, generator())]).tolist() == [3, 16, 5, 16]


def test_what_cannot_be_shared_goes_to_the_lowest_classes() -> None:
    assert balanced_shares(np.array([50, 50, 50]), 11).tolist() == [4, 4, 3]
    assert balanced_shares(np.array([1, 50, 50]), 4).tolist() == [1, 2, 1]


def test_all_labels_are_all_points() -> None:
    y = labels_with(7, 100, 31)
    assert np.array_equal(draw_labels(y, len(y), generator()), np.arange(len(y)))


def test_no_labels_is_an_empty_draw() -> None:
    assert draw_labels(labels_with(4, 4), 0, generator()).tolist() == []


def test_unlabeled_points_are_never_drawn() -> None:
    y = labels_with(20, 20, unlabeled=500)
    assert (y[draw_labels(y, 40, generator())] >= 0).all()
    with pytest.raises(NesiError, match="only 40"):
        draw_labels(y, 41, generator())


@pytest.mark.parametrize("wrong", [-1, 2.5, True, "10"])
def test_a_number_of_labels_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(NesiError, match="labels were asked for"):
        draw_labels(labels_with(20, 20), wrong, generator())  # type: ignore[arg-type]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_shares_are_as_even_as_the_classes_allow(counts: list[int], part: float, seed: int) -> None:
    y = labels_with(*counts)
    n_labels = round(part * len(y))
    chosen = draw_labels(y, n_labels, generator(seed))
    assert len(np.unique(chosen)) == n_labels
    shares = np.bincount(y[chosen], minlength=len(counts))
    # A class gives less than another (by more than the one that is left over) only if it has no more.
    for share, count in zip(shares, counts, strict=True):
        assert share == count or share >= shares.max() - 1


def test_every_member_of_a_class_is_equally_likely() -> None:
    y = labels_with(10, 10)
    rng = generator()
    seen = np.zeros(20)
    for _ in range(2000):
        seen[draw_labels(y, 4, rng)] += 1
    # Each point is drawn with probability 1/5: 400 of 2000, standard deviation 18.
    assert abs(seen - 400).max() < 5 * 18


def test_masking_keeps_only_the_drawn_labels() -> None:
    y = np.array([3, 1, 2, 0])
    masked = mask_labels(y, [1, 3])
    assert masked.tolist() == [-1, 1, -1, 0]
    assert masked.dtype == np.int64
    assert y.tolist() == [3, 1, 2, 0]


def test_tuning_takes_five_and_five_of_ten_labels_per_class() -> None:
    y = labels_with(100, 90, 80)
    train, validation = tuning_split(y, 30, generator())
    assert np.bincount(y[train]).tolist() == [5, 5, 5]
    assert np.bincount(y[validation]).tolist() == [5, 5, 5]
    assert np.intersect1d(train, validation).size == 0


def test_tuning_halves_stay_equal_when_classes_are_odd() -> None:
    y = labels_with(7, 9, 11)
    train, validation = tuning_split(y, len(y), generator())
    assert (len(train), len(validation)) == (14, 13)
    assert np.array_equal(np.union1d(train, validation), np.arange(len(y)))


def test_tuning_is_reproducible() -> None:
    y = labels_with(50, 50)
    for first, second in zip(tuning_split(y, 20, generator(3)), tuning_split(y, 20, generator(3)), strict=True):
        assert np.array_equal(first, second)


def test_tuning_needs_two_labels_per_class() -> None:
    with pytest.raises(NesiError, match="two per class"):
        tuning_split(labels_with(50, 50, 50), 4, generator())
