"""Data drawn from the generative model itself, so that the true W and R are known (tests, teaching).

    p(k) = 1/K,   p(c | k) = R_kc,   p(y | c) = prod_d Poisson(y_d; W_cd)

Unless W is given, every hidden unit is a small image of two bars on a dim background, and every class owns an
equal share of the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from data_tools.dataset import Dataset
from data_tools.errors import DataError

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class GeneratedDataset(Dataset):
    """A data set with the weights it was drawn from and the unit behind every point."""

    W: Floats | None = None
    R: Floats | None = None
    units_train: npt.NDArray[np.int64] | None = None
    units_test: npt.NDArray[np.int64] | None = None


def generate(
    n_train: int = 2000,
    n_test: int = 1000,
    n_classes: int = 4,
    n_subclasses: int = 12,
    side: int = 6,
    A: float = 150.0,
    seed: int = 0,
    W: Floats | None = None,
    R: Floats | None = None,
) -> GeneratedDataset:
    """Draw from the model with weights W (units x inputs, rows sum to A) and R (classes x units, rows sum to 1)."""
    for what, value in (("n_train", n_train), ("n_classes", n_classes), ("n_subclasses", n_subclasses), ("side", side)):
        if value < 1:
            raise DataError(f"generated: {what} is {value}, expected at least 1; correct it.")
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    image_shape = (side, side) if W is None else None
    W = bars(n_subclasses, side, A, rng) if W is None else np.asarray(W, dtype=np.float64)
    R = even_shares(n_classes, len(W)) if R is None else np.asarray(R, dtype=np.float64)
    if W.ndim != 2 or R.ndim != 2 or R.shape[1] != len(W):
        raise DataError(f"generated: W has shape {W.shape} and R {R.shape}, expected (C, D) and (K, C); correct them.")
    if (W < 0).any() or (R < 0).any() or not np.allclose(R.sum(axis=1), 1):
        raise DataError("generated: W or R is negative, or a row of R does not sum to 1; correct them.")
    X_train, y_train, units_train = _sample(n_train, W, R, rng)
    X_test, y_test, units_test = _sample(n_test, W, R, rng)
    names = tuple(str(k) for k in range(len(R)))
    return GeneratedDataset(
        "generated",
        X_train,
        y_train,
        X_test,
        y_test,
        names,
        image_shape=image_shape,
        W=W,
        R=R,
        units_train=units_train,
        units_test=units_test,
    )


def bars(n_subclasses: int, side: int, A: float, rng: np.random.Generator) -> Floats:
    """One image of two bars per unit, all different; rows sum to A."""
    pairs = list(combinations(range(2 * side), 2))
    if n_subclasses > len(pairs):
        raise DataError(
            f"generated: {n_subclasses} units on {side}x{side} pixels, but there are only {len(pairs)} pairs of "
            f"bars; raise side or lower n_subclasses."
        )
    single = np.zeros((2 * side, side, side))
    for i in range(side):
        single[i, i, :] = 1
        single[side + i, :, i] = 1
    chosen = [pairs[i] for i in rng.choice(len(pairs), size=n_subclasses, replace=False)]
    W = np.array([np.maximum(single[a], single[b]) for a, b in chosen]).reshape(n_subclasses, -1) + 0.1
    return A * W / W.sum(axis=1, keepdims=True)


def even_shares(n_classes: int, n_units: int) -> Floats:
    """R with unit c owned by class c mod K, equally likely within its class."""
    if n_units < n_classes:
        raise DataError(f"generated: {n_units} units for {n_classes} classes, expected at least one per class.")
    R = (np.arange(n_units)[None, :] % n_classes == np.arange(n_classes)[:, None]).astype(np.float64)
    return R / R.sum(axis=1, keepdims=True)


def _sample(
    n: int, W: Floats, R: Floats, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    y = rng.integers(len(R), size=n)
    # Inverse of the cumulative distribution, one row of R per point; the clip guards against rounding at 1.
    above = rng.random(n)[:, None] >= np.cumsum(R, axis=1)[y]
    units = np.minimum(above.sum(axis=1), len(W) - 1)
    return rng.poisson(W[units]).astype(np.float32), y.astype(np.int64), units.astype(np.int64)
