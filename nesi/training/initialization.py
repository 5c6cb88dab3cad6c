"""Where training starts: the initialisations of Appendix B.2, and those of the authors' program."""

from __future__ import annotations

from typing import Any, NamedTuple, get_args

import numpy as np
from pydantic import ValidationError

from nesi.config.values import RStart, WeightFile, WStart
from nesi.errors import NesiError
from nesi.observations import Observations
from nesi.training.settings import TrainingSettings

W_STARTS: tuple[str, ...] = get_args(get_args(WStart)[0])
R_STARTS: tuple[str, ...] = get_args(get_args(RStart)[0])
Start = str | np.ndarray | None  # the name of a start, or the weights themselves
_TRUST = 0.9  # in the label of the point that a unit starts from


class _Setting(NamedTuple):
    """All that a start may depend on."""

    data: Observations
    labels: np.ndarray  # -1 where unknown
    C: int
    K: int
    dtype: str
    rng: np.random.Generator

    @property
    def label_counts(self) -> np.ndarray:
        return np.bincount(self.labels[self.labels >= 0], minlength=self.K)


class StartNames(NamedTuple):
    """Where W and R start, after 'auto' and defaults are resolved; 'given' for weights that are given."""

    W: str
    R: str


def start_names(
    W_start: Start, R_start: Start, labels: np.ndarray, n_classes: int, settings: TrainingSettings
) -> StartNames:
    """The starts that `initial_weights` uses."""
    W_name = _known_name(W_start, W_STARTS, "W_init") or "auto"
    R_name = _known_name(R_start, R_STARTS, "R_init") or "uniform"
    if isinstance(R_start, np.ndarray):
        R_name = "given"
    if isinstance(W_start, np.ndarray):
        return StartNames("given", R_name)
    if W_name == "auto":
        every_class = np.bincount(labels[labels >= 0], minlength=n_classes).all()
        if R_name == "points":
            W_name = "points"
        elif n_classes == settings.C and every_class:
            W_name = "class_means"
        else:
            W_name = "points" if settings.inference == "truncated" else "data"
    return StartNames(W_name, R_name)


def initial_weights(
    W_start: Start,
    R_start: Start,
    data: Observations,
    labels: np.ndarray,
    n_classes: int,
    settings: TrainingSettings,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """W and R of all members of the committee.

    W, an array or
    data            m_d + U(0, 2 sigma_d), mean and deviation of all inputs; the default if C > K
    class_means     the same over the labeled points of class k, a block of units for each class
    points          halfway between a training point and the mean of all (ours; the default of truncated posteriors)
    single_points   a training point
    random, even    U(0, 1); 1/D
    auto            points if R starts from points, class_means in the complete setting C = K if every class has a
                    label; else the default

    R, an array or
    uniform         R_kc = 1/C, the default
    delta           R_kc = delta_kc, blocks of units if C > K
    points          units know the class of the labeled point that they start from (ours; with W from points)
    random          U(0, 1)
    """
    C, K, G, dtype = settings.C, n_classes, settings.committee, settings.dtype
    setting = _Setting(data, labels, C, K, dtype, rng)
    W_name, R_name = start_names(W_start, R_start, labels, n_classes, settings)
    if R_name == "points":
        if W_name != "points":
            raise NesiError("R_init is 'points', which needs units that start from points: use W_init='points'.")
        origins = [_origins(setting) for _ in range(G)]
        R = np.hstack([_R_of_origins(labels[part], K, dtype) for part in origins])
        return _blended_points(data, np.concatenate(origins), dtype), R
    if isinstance(W_start, np.ndarray):
        W = _checked_array(W_start, (C * G, data.n_features), "W_init", dtype, smallest=np.nextafter(0, 1))
    else:
        W = np.concatenate([_START_OF_W[W_name](setting) for _ in range(G)]).astype(dtype, copy=False)
    if isinstance(R_start, np.ndarray):
        R = _checked_array(R_start, (K, C * G), "R_init", dtype, smallest=0)
    else:
        R = np.hstack([_START_OF_R[R_name](setting) for _ in range(G)]).astype(dtype, copy=False)
    return W, R


def resolved_start(start: Any, run: int, layer: tuple[int, int], shape: tuple[int, int]) -> Start:
    """A start as the trainer wants it: weights that are in a file of the authors' program are read.

    `layer`: the numbers of the MultiLayer and of the layer in it, which that program's file names carry.
    """
    if isinstance(start, dict):
        try:
            start = WeightFile.model_validate(start)
        except ValidationError:
            raise NesiError(f"A start is {str(start)[:60]}, but must have the form {{'h5': path}}.") from None
    if isinstance(start, WeightFile):
        from nesi.legacy.h5_files import find_weights, read_weights

        return read_weights(find_weights(start.h5, run, *layer), shape)
    if start is None or isinstance(start, str):
        return start
    try:
        return np.asarray(start, dtype=None if isinstance(start, np.ndarray) else np.float64)
    except (TypeError, ValueError, OverflowError):
        raise NesiError(
            f"A start is {str(start)[:60]}, but must be an array of numbers or the name of a start."
        ) from None


def units_of_classes(C: int, K: int) -> list[np.ndarray]:
    """Contiguous, nearly equal blocks of units, one per class."""
    return np.array_split(np.arange(C), K)


# ---- W -------------------------------------------------------------------------------------------------------------


def _around_the_mean(setting: _Setting) -> np.ndarray:
    mean, deviation = setting.data.moments()
    return _noisy(mean, deviation, setting.C, setting.rng, setting.dtype)


def _around_class_means(setting: _Setting) -> np.ndarray:
    C, K, counts = setting.C, setting.K, setting.label_counts
    if not counts.all():
        raise NesiError(
            f"W_init is 'class_means', but class {int(np.argmin(counts))} has no labeled point: "
            "label at least one point of every class or use W_init='data'."
        )
    if C < K:
        raise NesiError(f"W_init is 'class_means', but there are fewer units (C = {C}) than classes (K = {K}).")
    parts = []
    for k, units in enumerate(units_of_classes(C, K)):
        moments = setting.data.moments(np.flatnonzero(setting.labels == k))
        parts.append(_noisy(*moments, len(units), setting.rng, setting.dtype))
    return np.concatenate(parts)


def _at_single_points(setting: _Setting) -> np.ndarray:
    n_points = setting.data.n_points
    if n_points < setting.C:
        raise NesiError(f"W_init is 'single_points', but there are {n_points} points for C = {setting.C} units.")
    return setting.data.dense_rows(setting.rng.choice(n_points, size=setting.C, replace=False), "float64")


_START_OF_W = {
    "data": _around_the_mean,
    "class_means": _around_class_means,
    "points": lambda setting: _blended_points(setting.data, _origins(setting), setting.dtype),
    "single_points": _at_single_points,
    # In (0, 1]: there is a logarithm to come.
    "random": lambda setting: 1 - setting.rng.random((setting.C, setting.data.n_features)),
    "even": lambda setting: np.full((setting.C, setting.data.n_features), 1 / setting.data.n_features),
}


def _origins(setting: _Setting) -> np.ndarray:
    n_points = setting.data.n_points
    return setting.rng.choice(n_points, size=setting.C, replace=n_points < setting.C)


def _blended_points(data: Observations, origins: np.ndarray, dtype: str) -> np.ndarray:
    W = data.dense_rows(origins, dtype)
    W += data.moments()[0].astype(dtype)
    W *= 0.5
    return W


def _noisy(mean: np.ndarray, deviation: np.ndarray, rows: int, rng: np.random.Generator, dtype: str) -> np.ndarray:
    noise = rng.random((rows, len(mean)), dtype=np.dtype(dtype).type)
    noise *= (2 * deviation).astype(dtype)
    noise += mean.astype(dtype)
    return noise


# ---- R -------------------------------------------------------------------------------------------------------------


def _one_class_each(setting: _Setting) -> np.ndarray:
    C, K = setting.C, setting.K
    if C < K:
        raise NesiError(f"R_init is 'delta', but there are fewer units (C = {C}) than classes (K = {K}).")
    R = np.zeros((K, C))
    for k, units in enumerate(units_of_classes(C, K)):
        R[k, units] = 1 / len(units)
    return R


_START_OF_R = {
    "uniform": lambda setting: np.full((setting.K, setting.C), 1 / setting.C),
    "delta": _one_class_each,
    "random": lambda setting: setting.rng.random((setting.K, setting.C)),
}


def _R_of_origins(labels: np.ndarray, K: int, dtype: str) -> np.ndarray:
    """p(k|c) trusts the label of the point that unit c starts from; without one it is 1/K."""
    units = np.flatnonzero(labels >= 0)
    R = np.full((K, len(labels)), 1 / K)
    R[:, units] *= 1 - _TRUST
    R[labels[units], units] += _TRUST
    return (R / R.sum(axis=1, keepdims=True)).astype(dtype)


# ---- checks --------------------------------------------------------------------------------------------------------


def _known_name(start: Start, known: tuple[str, ...], parameter: str) -> str | None:
    if start is None or isinstance(start, np.ndarray):
        return None
    if not isinstance(start, str) or start not in known:
        raise NesiError(f"{parameter} is {start!r}, but must be an array or one of {', '.join(known)}.")
    return start


def _checked_array(given: np.ndarray, shape: tuple[int, int], name: str, dtype: str, smallest: float) -> np.ndarray:
    try:
        with np.errstate(over="ignore"):  # what does not fit becomes infinite, and is refused
            array = np.asarray(given, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise NesiError(f"{name} is {str(given)[:60]}, but must be an array of numbers.") from None
    if array.shape != shape:
        raise NesiError(f"{name} has the shape {array.shape}, but must have {shape}.")
    if not np.isfinite(array).all() or array.min(initial=np.inf) < smallest:
        sign = "positive" if smallest > 0 else "non-negative"
        raise NesiError(f"{name} contains values that are not finite and {sign}.")
    return array.copy()
