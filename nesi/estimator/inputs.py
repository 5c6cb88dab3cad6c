"""What a user of scikit-learn may give to `NeSiClassifier`, as the trainer wants it."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, column_or_1d

from data_tools.rows_on_disk import chosen_rows
from data_tools.signed import CHOICES, InputPairs, sentence, settled_pairs
from nesi.config.values import shown
from nesi.errors import NesiError
from nesi.labels import UNLABELED
from nesi.observations import about_empty_points, checked_weights, has_content

_MOST_STARTS = 1_000_000

_LOST_MARKS = ("nan", "None", "<NA>", "NaT")  # a missing label, once NumPy has turned it into text


def split_labels(y: Any, n_points: int) -> tuple[np.ndarray, np.ndarray]:
    """The class names of the labeled points, and which points these are.

    -1, None, NaN, pandas' NA and NaT, and empty text mean unlabeled.
    """
    if y is None:
        return np.empty(0, dtype=np.int64), np.zeros(n_points, dtype=bool)
    names = column_or_1d(_as_array(y), warn=True)
    if names.shape != (n_points,):
        raise NesiError(f"y has the shape {names.shape}, but must hold one label for each of the {n_points} points.")
    missing = _missing(names)
    labeled = ~(missing | _minus_one(names))
    known = _of_one_type(names[labeled]) if names.dtype.kind in "OS" else names[labeled]
    if known.dtype.kind == "f" and not np.isfinite(known).all():
        raise NesiError("y holds an infinite number, but a class must be named by text or by a finite number.")
    if known.dtype.kind == "f" and missing.any() and (known == np.floor(known)).all():
        known = known.astype(np.int64)  # whole numbers that became floats only to make room for NaN
    if known.dtype.kind == "U" and (lost := [mark for mark in _LOST_MARKS if mark in known]):
        warnings.warn(
            f"y holds the class {lost[0]!r}, which looks like a missing label that NumPy has turned into text; in a "
            "list or in an array of objects None and NaN mark unlabeled points.",
            stacklevel=4,
        )
    if known.dtype.kind in "mM":
        raise NesiError(f"y holds {known.dtype}, but a class must be named by text or by a number; convert the labels.")
    if len(known):
        check_classification_targets(np.array(known.tolist()) if known.dtype == object else known)
    return known, labeled


def _as_array(y: Any) -> np.ndarray:
    """Without what NumPy's own conversion loses: it makes text of NaN, and floats of nullable integers."""
    if isinstance(y, (list, tuple)):
        objects = np.empty(len(y), dtype=object)
        objects[:] = list(y)
        return np.asarray(y) if any(np.ndim(name) for name in objects) else objects
    if isinstance(getattr(y, "dtype", None), np.dtype):  # an array, or a Series of an ordinary type
        return np.asarray(y)
    return np.asarray(y, dtype=object)


def _missing(names: np.ndarray) -> np.ndarray:
    if names.dtype.kind in "USO":
        return np.array([_is_missing(name) for name in names.tolist()], dtype=bool)
    return np.asarray(names != names)  # NaN and NaT


def _minus_one(names: np.ndarray) -> np.ndarray:
    if names.dtype == object:
        return np.array([_is_minus_one(name) for name in names], dtype=bool)
    return np.asarray(names == UNLABELED) if names.dtype.kind in "iuf" else np.zeros(len(names), dtype=bool)


def _is_missing(name: Any) -> bool:
    if name is None or type(name).__name__ == "NAType":  # pandas' NA refuses to be compared
        return True
    if isinstance(name, (str, bytes)):
        return not name.strip()
    return isinstance(name, Hashable) and bool(name != name)  # NaN and NaT


def _is_minus_one(name: Any) -> bool:
    return isinstance(name, (int, float, np.number)) and name == UNLABELED


def _of_one_type(known: np.ndarray) -> np.ndarray:
    """Text as it is, numbers and truth values as NumPy's; a mixture is refused, for it has no order."""
    kinds: dict[str, Any] = {}
    for name in known:
        kinds.setdefault(_kind(name), name)
    if len(kinds) > 1:
        (first, one), (second, other) = list(kinds.items())[:2]
        raise NesiError(
            f"y mixes types: {shown(one)} is {first} and {shown(other)} is {second}, but all classes must have names "
            "of one type; use text for all of them, or numbers for all."
        )
    return known if "text" in kinds else np.array(known.tolist())


def _kind(name: Any) -> str:
    if isinstance(name, str):
        return "text"
    if isinstance(name, (bool, np.bool_)):
        return "a truth value"
    if isinstance(name, (int, float, np.integer, np.floating)):
        return "a number"
    raise NesiError(
        f"y holds {shown(name)} of type {type(name).__name__}, but a class must be named by text or by a number; "
        "convert the labels, for instance with str() or decode()."
    )


def are_soft(y: Any) -> bool:
    """Whether labels are distributions: there is more than one column."""
    try:
        shape = np.asarray(y).shape
    except ValueError:
        raise NesiError("y has rows of different lengths, but must hold one label for each point.") from None
    return len(shape) == 2 and shape[1] > 1


def pairs_of_inputs(X: Any, signed: Any) -> InputPairs | None:
    """How features become two inputs each, with a warning if they are split and nobody has asked for it."""
    if not isinstance(signed, str) or signed not in CHOICES:
        raise NesiError(f"signed is {shown(signed)}, but must be one of 'auto', 'measured', 'range', 'split' or 'no'.")
    pairs = settled_pairs(X, signed)
    if pairs is not None and signed == "auto":
        warnings.warn(sentence(X), stacklevel=4)
    return pairs


def soft_labels(y: Any, n_points: int) -> np.ndarray:
    """Distributions over classes; a row in which every value is missing is one of zeros, an unlabeled point."""
    given = np.asarray(y, dtype=object)
    try:
        soft = np.where(_missing(given.ravel()).reshape(given.shape), np.nan, given).astype(np.float64)
    except (TypeError, ValueError):
        raise NesiError("y has several columns, so it must hold numbers: the probability of each class.") from None
    if len(soft) != n_points:
        raise NesiError(f"y has {len(soft)} rows, but must hold one for each of the {n_points} points.")
    soft[np.isnan(soft).all(axis=1)] = 0
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
        X, labels, labeled, weights = chosen_rows(X, used), labels[used], labeled[used], weights[used]
    return X, labels, labeled, None if (weights == 1).all() else weights


def without_empty(
    X: Any, labels: np.ndarray, labeled: np.ndarray, weights: np.ndarray | None
) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray | None]:
    """Only the points that have content, with a warning if there are others."""
    filled = has_content(X)
    if filled.all():
        return X, labels, labeled, weights
    warn_of_empty(filled, learning=True)
    return chosen_rows(X, filled), labels[filled], labeled[filled], None if weights is None else weights[filled]


def warn_of_empty(filled: np.ndarray, learning: bool) -> None:
    if not filled.all():
        sentence = about_empty_points(int((~filled).sum()), len(filled), learning)
        warnings.warn(sentence, UserWarning, stacklevel=4)


def points_and_labels(labeled: np.ndarray, weights: np.ndarray | None) -> tuple[float, float]:
    """N and L."""
    if weights is None:
        return len(labeled), int(labeled.sum())
    return float(weights.sum()), float(weights[labeled].sum())


def class_indices(known: np.ndarray, labeled: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Numbers of classes, -1 for unlabeled points."""
    labels = np.full(len(labeled), UNLABELED, dtype=np.int64)
    number = {name: index for index, name in enumerate(classes.tolist())}
    for name in (names := known.tolist()):
        if name not in number:
            raise NesiError(f"A label is {shown(name)}, but the known classes are {', '.join(map(str, classes[:10]))}.")
    labels[labeled] = [number[name] for name in names]
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


def check_units(n_subclasses: Any, n_classes: int) -> None:
    """Whether it is a number at all is found out with all other parameters."""
    if isinstance(n_subclasses, (int, np.integer)) and 0 < n_subclasses < n_classes:
        raise NesiError(
            f"n_subclasses is {n_subclasses}, but must be at least {n_classes}: each class needs a unit of its own; "
            "more per class are better."
        )


def check_count(name: str, count: Any) -> None:
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise NesiError(f"{name} is {shown(count)}, but must be an integer of at least 1.")


def starting_points(rng: np.random.Generator, n_init: Any) -> list[np.random.Generator]:
    """The given generator, and as many more as there are further starts."""
    check_count("n_init", n_init)
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
