"""What a user of scikit-learn may give to `NeSiClassifier`, as the trainer wants it."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from nesi.errors import NesiError
from nesi.labels import UNLABELED
from nesi.observations import about_empty_points, checked_weights, has_content

_MOST_STARTS = 1_000_000


def split_labels(y: Any, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Class names, and which points have one."""
    if y is None:
        return np.full(n_points, UNLABELED), np.zeros(n_points, dtype=bool)
    names = column_or_1d(y, warn=True)
    if names.shape != (n_points,):
        raise NesiError(f"y has the shape {names.shape}, but must hold one label for each of the {n_points} points.")
    if names.dtype == object:
        labeled = np.array([name is not None and not _is_minus_one(name) for name in names], dtype=bool)
    else:
        labeled = ~np.array([_is_minus_one(name) for name in names.tolist()], dtype=bool)
    if labeled.any():
        known = names[labeled]
        check_classification_targets(np.array(known.tolist()) if known.dtype == object else known)
    return names, labeled


def soft_labels(y: Any, n_points: int) -> np.ndarray:
    try:
        soft = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError):
        raise NesiError("y has several columns, so it must hold numbers: the probability of each class.") from None
    if len(soft) != n_points:
        raise NesiError(f"y has {len(soft)} rows, but must hold one for each of the {n_points} points.")
    return soft


def weighted(
    X: Any, labels: np.ndarray, labeled: np.ndarray, sample_weight: Any
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
    """Only the points that count, and how much; None if all count the same."""
    if sample_weight is None:
        return X, labels, labeled, None
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise NesiError("All sample weights are 0: there is nothing to learn from.")
    weights = checked_weights(weights, len(weights))
    if (used := np.flatnonzero(weights)).size < weights.size:
        X, labels, labeled, weights = X[used], labels[used], labeled[used], weights[used]
    return X, labels, labeled, None if (weights == 1).all() else weights


def without_empty(
    X: Any, labels: np.ndarray, labeled: np.ndarray, weights: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
    """Only the points that have content, with a warning if there are others."""
    filled = has_content(X)
    if filled.all():
        return X, labels, labeled, weights
    warn_of_empty(filled, learning=True)
    return X[filled], labels[filled], labeled[filled], None if weights is None else weights[filled]


def warn_of_empty(filled: np.ndarray, learning: bool) -> None:
    if not filled.all():
        sentence = about_empty_points(int((~filled).sum()), len(filled), learning)
        warnings.warn(sentence, UserWarning, stacklevel=4)


def points_and_labels(labeled: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """N and L."""
    if weights is None:
        return len(labeled), int(labeled.sum())
    return float(weights.sum()), float(weights[labeled].sum())


def _is_minus_one(name: Any) -> bool:
    return isinstance(name, (int, float, np.number)) and name == UNLABELED


def class_indices(names: np.ndarray, labeled: np.ndarray, classes: np.ndarray) -> np.ndarray:
    labels = np.full(len(names), UNLABELED, dtype=np.int64)
    known = names[labeled]
    unknown = ~np.isin(known, classes)
    if unknown.any():
        shown = ", ".join(map(str, classes[:10]))
        raise NesiError(f"A label is {known[unknown][0]!r}, but the known classes are {shown}.")
    labels[labeled] = np.searchsorted(classes, known)
    return labels


def generator(random_state: Any) -> np.random.Generator:
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    try:
        return np.random.default_rng(np.random.SeedSequence(random_state))
    except (TypeError, ValueError):
        raise NesiError(
            f"random_state is {str(random_state)[:60]!r}, but must be an integer of at least 0, a numpy Generator or "
            "RandomState, or None."
        ) from None


def checked_classes(classes: Any) -> np.ndarray:
    """What `partial_fit` is told about the classes."""
    given = np.asarray(classes, dtype=object) if isinstance(classes, (list, tuple)) else np.asarray(classes)
    if given.ndim != 1 or not given.size:
        raise NesiError(f"classes is {str(classes)[:60]}, but must be a list of all class names, such as [0, 1, 2].")
    try:
        return np.unique(np.array(given.tolist()) if len({type(name) for name in given.tolist()}) == 1 else given)
    except TypeError:
        raise NesiError(
            f"classes is {str(classes)[:60]}, but names of classes must be of one kind: all numbers, or all words."
        ) from None


def as_float(number: Any) -> Any:
    """A number as Python's own; anything else as it is, for the settings to refuse."""
    try:
        return float(number) if not isinstance(number, str) else number
    except (TypeError, ValueError, OverflowError):
        return number


def check_n_init(n_init: Any) -> None:
    if isinstance(n_init, bool) or not isinstance(n_init, Integral) or n_init < 1:
        raise NesiError(f"n_init is {n_init!r}, but must be an integer of at least 1.")


def starting_points(rng: np.random.Generator, n_init: Any) -> list[np.random.Generator]:
    """The given generator, and as many more as there are further starts."""
    check_n_init(n_init)
    if n_init > _MOST_STARTS:
        raise NesiError(f"n_init is {str(n_init)[:40]}, but must be at most {_MOST_STARTS}.")
    if n_init == 1:
        return [rng]
    try:
        return [rng, *rng.spawn(int(n_init) - 1)]
    except TypeError:  # only generators that were seeded through a SeedSequence know how to
        raise NesiError(
            f"n_init is {n_init}, but the given random_state cannot spawn further generators; use an int or "
            "numpy.random.default_rng(seed)."
        ) from None
