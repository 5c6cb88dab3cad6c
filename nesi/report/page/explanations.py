"""What a network is, and what in its training may surprise, in words."""

from __future__ import annotations

import numpy as np

from nesi.networks import get_network
from nesi.storage.arrays import Arrays
from nesi.storage.records import Record


def about_the_network(name: str) -> str:
    """What the letters mean, in a sentence."""
    kind = get_network(name)
    how = "feedforward: its units look at the input alone"
    if kind.recurrent:
        how = "recurrent: its units look at the input and listen to the class layer"
    return f"{name} is {how}" + ("; it labels points itself where it is certain." if kind.self_labeling else ".")


def why_the_likelihood_falls(record: Record, histories: list[Arrays]) -> str:
    """Said where a curve ends clearly below its maximum; empty elsewhere."""
    falls = False
    for history in histories:
        values = history.get("log_likelihood", np.zeros(0))
        values = values[np.isfinite(values)]
        if len(values) > 2:
            falls |= bool(values.max() - values[-1] > 0.02 * (values.max() - values.min()))
    if not falls:
        return ""
    if get_network(record["network"]).recurrent:
        used = record["settings"].get("stopping")
        end = (
            "The stopping criterion looks for this fall and keeps the weights from before it."
            if used
            else "With `stopping: true` training ends there."
        )
        return (
            "The log-likelihood falls in the end. That is how recurrent networks are built, and no fault: the class "
            f"layer steers the units, and in time the few labeled points outweigh the many others. {end}"
        )
    return (
        "The log-likelihood falls a little. That is how feedforward networks are built, and no fault: their units "
        "learn from the inputs alone, while the likelihood that is drawn also contains the class layer; and learning "
        "in mini-batches is never quite still."
    )
