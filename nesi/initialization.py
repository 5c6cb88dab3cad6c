"""Where training starts: the initialisations of Appendix B.2."""

from __future__ import annotations

from typing import Any

import numpy as np

from nesi.errors import NesiError
from nesi.observations import Observations

W_STARTS = ("auto", "data", "class_means", "points")
R_STARTS = ("uniform", "delta", "points")
_TRUST = 0.9  # in the label of the point that a unit starts from


def initial_weights(
    W_start: Any,
    R_start: Any,
    data: Observations,
    labels: np.ndarray,
    C: int,
    K: int,
    rng: np.random.Generator,
    dtype: str,
    overcomplete_start: str = "data",
    committee: int = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """W and R as `initial_W` and `initial_R` have them, or both of them from the same points."""
    if isinstance(R_start, str) and R_start == "points":
        from_points = W_start == "points" or (W_start in (None, "auto") and overcomplete_start == "points")
        if not isinstance(W_start, str | None) or not from_points:
            raise NesiError("R_init is 'points', which needs units that start from points: use W_init='points'.")
        origins = np.concatenate([_origins(data, C, rng) for _ in range(committee)])
        R = np.hstack([_R_of_origins(labels[part], K, dtype) for part in np.split(origins, committee)])
        return _blended_points(data, origins, dtype), R
    W = initial_W(W_start, data, labels, C, K, rng, dtype, overcomplete_start, committee)
    return W, initial_R(R_start, C, K, dtype, committee)


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
        return _blended_points(data, _origins(data, C, rng), dtype)
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
    """`start` is an array, or "uniform": R_kc = 1/C, or "delta": R_kc = delta_kc (blocks of units if C > K).

    For "points" (not in the paper: units know the class of the labeled point they start from) see `initial_weights`.
    """
    if start is not None and not isinstance(start, str):
        return _checked_array(start, (K, C * committee), "R_init", dtype, smallest=0)
    if committee > 1:
        return np.tile(initial_R(start, C, K, dtype), committee)
    if start not in (None, "uniform", "delta"):
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


def _origins(data: Observations, C: int, rng: np.random.Generator) -> np.ndarray:
    return rng.choice(data.n_points, size=C, replace=data.n_points < C)


def _blended_points(data: Observations, origins: np.ndarray, dtype: str) -> np.ndarray:
    W = data.dense_rows(origins, dtype)
    W += data.moments()[0].astype(dtype)
    W *= 0.5
    return W


def _R_of_origins(labels: np.ndarray, K: int, dtype: str) -> np.ndarray:
    """p(k|c) trusts the label of the point that unit c starts from; without one it is 1/K."""
    units = np.flatnonzero(labels >= 0)
    R = np.full((K, len(labels)), 1 / K)
    R[:, units] *= 1 - _TRUST
    R[labels[units], units] += _TRUST
    return (R / R.sum(axis=1, keepdims=True)).astype(dtype)


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
