"""The weights of a network, and what follows from them."""

from __future__ import annotations

import numpy as np

from nesi.engines.backend import State


class Weights:
    """W, R, log W and the row sums, in the form in which they are lent to compiled functions."""

    def __init__(self, W: np.ndarray, R: np.ndarray, dtype: str) -> None:
        self._dtype = dtype
        self.set_weights(W, R)

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        copies = {"W": W, "R": R}  # training writes over them
        self._state: State = {name: np.array(value, self._dtype, order="C") for name, value in copies.items()}
        self.compute_derived()

    def compute_derived(self) -> None:
        """Compute log W and the row sums anew, which compiled steps keep up to date for the rows that they change.

        Done at the end of every iteration, so that a training that starts again from W goes on bit for bit.
        """
        W = self.W
        log_W = np.log(W)
        sums = {"W_sum": W.sum(axis=1, dtype="float64"), "log_W_sum": log_W.sum(axis=1, dtype="float64")}
        self._state |= {"log_W": log_W, **sums}

    @property
    def W(self) -> np.ndarray:
        return np.asarray(self._state["W"])

    @property
    def R(self) -> np.ndarray:
        return np.asarray(self._state["R"])
