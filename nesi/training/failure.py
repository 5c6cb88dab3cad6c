"""Notice when training has failed, and say why."""

from __future__ import annotations

import numpy as np

from nesi.errors import TrainingFailed
from nesi.training.phases import Phase
from nesi.training.settings import TrainingSettings


def check_success(
    phase: Phase, log_likelihood: float, settings: TrainingSettings, batch_size: int, iteration: int
) -> None:
    """After every iteration: weights that are finite and non-negative, and a likelihood that is a number."""
    failed = f"Training failed in iteration {iteration}:"
    usable = [weights.min() >= 0 and weights.max() < np.inf for weights in phase.learning]  # neither holds for nan
    if not all(usable):
        what = f"{failed} the weights are no longer finite and non-negative."
        if settings.training == "online" and settings.minibatch_rule == "summed":
            smaller = f"a batch_size below {batch_size}, " if batch_size > 1 else ""
            raise TrainingFailed(
                f"{what} The learning rate was too high for the size of the mini-batches: use "
                f"minibatch_rule='sequential', {smaller}or smaller learning rates."
            )
        raise TrainingFailed(
            f"{what} No learning rate does that with this rule, so the numbers were too extreme: look at "
            "W_init, R_init, the sample weights and A, or use dtype='float64'."
        )
    if phase.changes_likelihood and not np.isfinite(log_likelihood):
        raise TrainingFailed(
            f"{failed} the log-likelihood is {log_likelihood}, so the network holds some point for impossible: "
            "look at label_noise, W_init and R_init, or use dtype='float64'."
        )
