"""Where training starts: the initialisations of Appendix B.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.observations import Observations

W_STARTS = ("auto", "data", "class_means", "points")
R_STARTS = ("uniform", "delta")


def initial_W(
    start: Any,
    data: Observations,
    labels: np.ndarray,
    C: int,
    K: int,
    rng: np.random.Generator,
    dtype: str,
    overcomplete_start: str = "data",
    committee: int = 1,
) -> np.ndarray:
    """`start` is an array or one of W_STARTS; the members of a committee start from different random numbers.

    data:         W_cd = m_d + U(0, 2 sigma_d), with mean and standard deviation of all points.
    class_means:  the same with the labeled points of each class, the units divided among the classes.
    points:       W_c half way between the mean and a randomly chosen point (not in the paper): units differ from the
                  beginning, so that large mini-batches and a truncated posterior have something to work with.
    auto:         class_means in the complete setting C = K, if every class has a label; else `overcomplete_start`.
    """
    if start is not None and not isinstance(start, str):
        return _checked_array(start, (C * committee, data.n_features), "W_init", dtype, smallest=np.nextafter(0, 1))
    if committee > 1:
        members = [initial_W(start, data, labels, C, K, rng, dtype, overcomplete_start) for _ in range(committee)]
        return np.concatenate(members)
    if start not in (None, *W_STARTS):
        raise NesiError(f"W_init is {start!r}, but must be an array or one of {', '.join(W_STARTS)}.")
    counts = np.bincount(labels[labels >= 0], minlength=K)
    if start in (None, "auto"):
        start = "class_means" if C == K and counts.all() else overcomplete_start
    if start == "data":
        mean, deviation = data.moments()
        return _noisy(mean, deviation, C, rng, dtype)
    if start == "points":
        return _blended_points(data, C, rng, dtype)
    if not counts.all():
        raise NesiError(
            f"W_init is 'class_means', but class {int(np.argmin(counts))} has no labeled point: "
            "label at least one point of every class or use W_init='data'."
        )
    if C < K:
        raise NesiError(f"W_init is 'class_means', but there are fewer units (C = {C}) than classes (K = {K}).")
    return np.concatenate(
        [
            _noisy(*data.moments(np.flatnonzero(labels == k)), len(units), rng, dtype)
            for k, units in enumerate(units_of_classes(C, K))
        ]
    )


def initial_R(start: Any, C: int, K: int, dtype: str, committee: int = 1) -> np.ndarray:
    """`start` is an array or one of R_STARTS: R_kc = 1/C, or R_kc = delta_kc (blocks of units if C > K)."""
    if start is not None and not isinstance(start, str):
        return _checked_array(start, (K, C * committee), "R_init", dtype, smallest=0)
    if committee > 1:
        return np.tile(initial_R(start, C, K, dtype), committee)
    if start not in (None, *R_STARTS):
        raise NesiError(f"R_init is {start!r}, but must be an array or one of {', '.join(R_STARTS)}.")
    if start in (None, "uniform"):
        return np.full((K, C), 1 / C, dtype=dtype)
    if C < K:
        raise NesiError(f"R_init is 'delta', but there are fewer units (C = {C}) than classes (K = {K}).")
    R = np.zeros((K, C), dtype=dtype)
    for k, units in enumerate(units_of_classes(C, K)):
        R[k, units] = 1 / len(units)
    return R


def units_of_classes(C: int, K: int) -> list[np.ndarray]:
    """Contiguous, nearly equal blocks of units, one per class."""
    return np.array_split(np.arange(C), K)


def _blended_points(data: Observations, C: int, rng: np.random.Generator, dtype: str) -> np.ndarray:
    chosen = rng.choice(data.n_points, size=C, replace=data.n_points < C)
    W = data.dense_rows(chosen, dtype)
    W += data.moments()[0].astype(dtype)
    W *= 0.5
    return W


def _noisy(mean: np.ndarray, deviation: np.ndarray, rows: int, rng: np.random.Generator, dtype: str) -> np.ndarray:
    noise = rng.random((rows, len(mean)), dtype=np.dtype(dtype).type)
    noise *= (2 * deviation).astype(dtype)
    noise += mean.astype(dtype)
    return noise


def _checked_array(given: Any, shape: tuple[int, int], name: str, dtype: str, smallest: float) -> np.ndarray:
    array = np.asarray(given, dtype=dtype)
    if array.shape != shape:
        raise NesiError(f"{name} has the shape {array.shape}, but must have {shape}.")
    if not np.isfinite(array).all() or array.min(initial=np.inf) < smallest:
        sign = "positive" if smallest > 0 else "non-negative"
        raise NesiError(f"{name} contains values that are not finite and {sign}.")
    return array.copy()
