"""Which units a reader is shown, where there are too many to show all of them."""

from __future__ import annotations

import numpy as np

SHOWN_UNITS = 100


def choose_units(R: np.ndarray, count: int = SHOWN_UNITS) -> np.ndarray:
    """A random but repeatable choice of units, ordered by their most probable class."""
    units = np.random.default_rng(0).permutation(R.shape[1])[:count]
    strongest = np.argmax(R[:, units], axis=0)
    return units[np.lexsort((-R[strongest, units], strongest))]
