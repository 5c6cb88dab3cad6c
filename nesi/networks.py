"""The four Neural Simpletrons of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from nesi.errors import NesiError


@dataclass(frozen=True)
class Network:
    name: str
    recurrent: bool  # the first hidden layer also listens to the second (Section 3.2)
    self_labeling: bool  # the second hidden layer also learns from its own certain answers (Section 3.3)


NETWORKS = {
    "ff": Network("ff", recurrent=False, self_labeling=False),
    "r": Network("r", recurrent=True, self_labeling=False),
    "ff+": Network("ff+", recurrent=False, self_labeling=True),
    "r+": Network("r+", recurrent=True, self_labeling=True),
}


def get_network(name: str) -> Network:
    if name not in NETWORKS:
        raise NesiError(f"network is {name!r}, but must be one of {', '.join(NETWORKS)}.")
    return NETWORKS[name]


def training_phases(network: str, greedy: bool, spreads: bool = False) -> tuple[str, ...]:
    """Which layers learn, one phase after the other.

    Greedy training is for feedforward networks, whose first layer needs no labels; for a recurrent network it is
    the start, after which both layers learn together. Where labels are spread, what arrives is what the second layer
    learns.
    """
    if not greedy:
        return ("both",)
    layers = ("first", "spread" if spreads else "second")
    return (*layers, "both") if get_network(network).recurrent else layers
