"""The parameters of one network in training: checked once, then fixed."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from pydantic import ValidationError, model_validator

from nesi.config.declaration import meanings
from nesi.config.explanation import explain
from nesi.config.network_parameters import NetworkParameters
from nesi.config.values import NetworkName
from nesi.errors import NesiError
from nesi.networks import Network, get_network, training_phases

# Parameter -> what `NeSiClassifier` calls it.
ESTIMATOR_NAMES = {key: meaning.estimator_name or key for key, meaning in meanings(NetworkParameters).items()}


class TrainingSettings(NetworkParameters):
    """The free parameters of the paper, and how to compute, for one of the four networks."""

    names_in_errors: ClassVar[dict[str, str]] = {}  # what the user calls a parameter, where that is not its own name
    network: NetworkName

    def __init__(self, **given: Any) -> None:
        try:
            super().__init__(**given)
        except ValidationError as error:
            raise NesiError(explain(error, TrainingSettings, self.names_in_errors)) from None

    @model_validator(mode="before")
    @classmethod
    def _without_numpy(cls, given: Any) -> Any:
        return {key: _plain(value) for key, value in given.items()} if isinstance(given, dict) else given

    @model_validator(mode="after")
    def _backend_is_installed(self) -> TrainingSettings:
        if self.backend == "jax" and find_spec("jax") is None:
            raise ValueError("backend 'jax' needs JAX, which is not installed: pip install 'nesi[jax]'")
        return self

    @model_validator(mode="after")
    def _em_is_for_the_recurrent_network(self) -> TrainingSettings:
        if self.training == "em" and self.network != "r":
            raise ValueError(
                f"training is 'em', which is EM for the model of r, but network is {self.network!r}; use 'r'"
            )
        return self

    def changed(self, **changes: Any) -> TrainingSettings:
        """A copy with some values changed, checked again."""
        return type(self)(**{**dict(self), **changes})

    @property
    def network_kind(self) -> Network:
        """Is it recurrent, and does it label points itself?"""
        return get_network(self.network)

    @property
    def units(self) -> int:
        """Of all members of the committee together."""
        return self.C * self.committee

    @property
    def phases(self) -> tuple[str, ...]:
        """Which layers learn, one phase after the other."""
        return training_phases(self.network, self.greedy, self.spread is not None)

    def iterations_of(self, phase: str) -> int:
        """At most; training that converges ends earlier."""
        if phase == "spread":
            return 1
        return self.iterations_R if phase == "second" and self.iterations_R is not None else self.iterations


class EstimatorSettings(TrainingSettings):
    """The same from `NeSiClassifier`, in whose words errors are explained."""

    names_in_errors: ClassVar[dict[str, str]] = ESTIMATOR_NAMES

    @classmethod
    def of(cls, given: dict[str, Any], **changes: Any) -> EstimatorSettings:
        """From the parameters of the estimator; `changes` are under the names of this class."""
        known = {key: given[name] for key, name in ESTIMATOR_NAMES.items() if name in given}
        if known["truncated"] is None:  # as by default
            del known["truncated"]
        return cls(**{"network": given["network"], **known, **changes})


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as Python's own, which the declarations speak of."""
    if isinstance(value, np.generic):
        return value.item()
    return value.tolist() if isinstance(value, np.ndarray) else value
