"""The weights of a network, and what follows from them, in the form in which they are lent to compiled functions."""

from __future__ import annotations

import numpy as np

from nesi.engines.backend import State
from nesi.engines.excess_kernels import summed_up

_UNITS_FOR_REFERENCE = 2000  # at most; any value near the mean does


class Weights:
    """W, R, log W and the row sums.

    Drives sum_d y_d log W_cd reach some hundreds, while the softmax only looks at their differences, in which float32
    then has few digits left. So `log_W` is relative to a `reference` b_d that all units share: it cancels in T1.4, and
    the likelihood gets sum_d y_d b_d back. For sparse data b = 0: their drives are summed up in float64.
    """

    def __init__(self, W: np.ndarray, R: np.ndarray, dtype: str, sparse: bool) -> None:
        self._dtype, self._sparse_data = dtype, sparse
        self.set_weights(W, R)

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        copies = {"W": W, "R": R}  # training writes over them
        self.arrays: State = {name: np.array(value, self._dtype, order="C") for name, value in copies.items()}
        self.compute_derived()

    def compute_derived(self) -> None:
        """Compute log W and the row sums again, which compiled steps keep up to date for the rows that they change.

        Done at the end of every iteration, so that training that restarts from W continues bit for bit.
        """
        W, log_W = self.W, self.arrays.get("log_W")
        if not isinstance(log_W, np.ndarray):  # nothing to write over; a new array takes longer than the logarithms
            log_W = None
        reference = np.zeros(W.shape[1], self._dtype)
        with np.errstate(invalid="ignore", divide="ignore"):  # whoever trains says what is wrong with such weights
            log_W = np.log(W, out=log_W)
            if not self._sparse_data:
                some = log_W[:: 1 + len(W) // _UNITS_FOR_REFERENCE]
                reference += some.mean(axis=0, dtype="float64").astype(self._dtype)
                log_W -= reference
        sums = {"W_sum": W.sum(axis=1, dtype="float64"), "log_W_sum": log_W.sum(axis=1, dtype="float64")}
        # Weights tend towards inputs of at least 1, so that none becomes smaller than this until the next time.
        smallest = np.array([min(W.min(), 1)], self._dtype)
        self.arrays |= {"log_W": log_W, "reference": reference, "smallest": smallest, **sums}

    @property
    def shape(self) -> tuple[int, int]:
        """C and D."""
        C, D = self.arrays["W"].shape
        return C, D

    def replace_rows(self, rows: np.ndarray, W: np.ndarray, R: np.ndarray) -> None:
        """Other values for some rows of W, and for R; what follows from them is computed again."""
        arrays = self.arrays
        arrays["W"][rows] = W
        arrays["R"][...] = R
        log_W = np.log(W) - arrays["reference"]
        arrays["log_W"][rows] = log_W
        arrays["W_sum"][rows] = W.sum(axis=1, dtype="float64")
        arrays["log_W_sum"][rows] = log_W.sum(axis=1, dtype="float64")

    @property
    def W(self) -> np.ndarray:
        return np.asarray(self.arrays["W"])

    @property
    def R(self) -> np.ndarray:
        return np.asarray(self.arrays["R"])


class ExcessWeights:
    """R, and W as its excess over the background: see `nesi.engines.excess_kernels`."""

    def __init__(self, W: np.ndarray, R: np.ndarray, dtype: str) -> None:
        self._dtype = dtype
        self.set_weights(W, R)

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        V = np.ascontiguousarray((np.asarray(W, self._dtype) - 1).T)
        V = np.maximum(V, np.finfo(self._dtype).eps - 1)  # a weight far below 1 has no digits left: it must not be 0
        self.arrays: State = {"R": np.array(R, self._dtype, order="C"), "V": V}
        self.compute_derived()

    def compute_derived(self) -> None:
        """As if training started again from W, so that it goes on bit for bit when it does."""
        V = self.W.T - np.asarray(1, self._dtype)
        V = np.ascontiguousarray(V)
        sums, lazy = summed_up(V)
        excess = V.sum(axis=0, dtype="float64")
        self.arrays |= {"V": V, "scale": np.ones(V.shape[1]), "sums": sums, "excess": excess, "lazy": lazy}

    @property
    def shape(self) -> tuple[int, int]:
        D, C = self.arrays["V"].shape
        return C, D

    def replace_rows(self, rows: np.ndarray, W: np.ndarray, R: np.ndarray) -> None:
        """As `Weights.replace_rows`."""
        self.arrays["V"][:, rows] = (W - np.asarray(1, self._dtype)).T / self.arrays["scale"][rows].astype(self._dtype)
        self.arrays["R"][...] = R
        self.compute_derived()

    @property
    def W(self) -> np.ndarray:
        scale = self.arrays.get("scale", np.ones(1))
        W: np.ndarray = (1 + scale * self.arrays["V"]).astype(self._dtype)
        return np.ascontiguousarray(W.T)

    @property
    def R(self) -> np.ndarray:
        return np.asarray(self.arrays["R"])
