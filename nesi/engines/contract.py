"""What an engine is: the contract that training and inference rely on.

`ExactEngine` and `TruncatedEngine` learn; `ExactEngine` and `QuickInference` answer for new points. A new engine keeps
one of the two contracts, and `tests/test_engine_contract.py` says whether it does.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from nesi.observations import Observations, Points


class StepInfo(NamedTuple):
    log_likelihood: np.ndarray  # of every point, with the weights before the step, without the Gamma term
    self_labeled: int


class Inference(NamedTuple):
    s: np.ndarray
    t: np.ndarray
    log_likelihood: np.ndarray  # without the Gamma term


class Posterior(NamedTuple):
    t: np.ndarray  # T1.6: p(k|y), one row per point
    log_likelihood: np.ndarray  # eq. (loglikelihood) of every point, or a lower bound of it


class LearningEngine(Protocol):
    """The weights of one network, which learn from the training data one mini-batch at a time."""

    @property
    def W(self) -> np.ndarray: ...

    @property
    def R(self) -> np.ndarray: ...

    def set_weights(self, W: np.ndarray, R: np.ndarray) -> None:
        """Go on from these weights; they are copied."""

    def step(
        self,
        points: Points,
        labels: np.ndarray,
        epsilon_W: np.ndarray,
        epsilon_R: np.ndarray,
        learn: str = "WR",
        indices: np.ndarray | None = None,
    ) -> StepInfo:
        """T1.7 and T1.8 over a mini-batch.

        Learning rates are given per point, `learn` names the layers that learn, and `indices` says which points of the
        training data these are.
        """

    def end_iteration(self) -> None:
        """After each pass over the data: compute again what follows from the weights."""

    def settle(self) -> None:
        """W will not change any more: get ready for `activities`."""

    def activities(self, data: Observations) -> sp.csr_array:
        """T1.4 of the training points, without what is negligible; one row per point and member of the committee."""

    def state(self) -> dict[str, np.ndarray]:
        """What it takes, besides W and R, to go on bit for bit."""

    def restore(self, state: dict[str, np.ndarray]) -> None:
        """Go on from `state()`; refuses a state that does not fit, before anything is changed."""


class InferenceEngine(Protocol):
    """A trained network that answers for any points."""

    def posterior(self, data: Observations) -> Posterior:
        """Classes and likelihood of every point, none of which has a label."""
