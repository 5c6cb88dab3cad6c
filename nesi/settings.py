"""The free parameters of the paper, and how to compute: checked once, then fixed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nesi.engines.backend import check_backend
from nesi.engines.truncated import TruncationSettings
from nesi.equations import MINIBATCH_RULES
from nesi.errors import NesiError
from nesi.networks import get_network, training_phases

INFERENCES = ("exact", "truncated")


@dataclass(frozen=True)
class TrainingSettings:
    """The free parameters of the paper, and how to compute."""

    network: str
    C: int
    A: float
    epsilon_W: float = 0.2  # x C/N
    epsilon_R: float = 0.2  # x K/L, x K/N with self-labeling
    threshold: float = 0.6  # BvSB, networks with self-labeling only
    iterations: int = 100
    iterations_R: int | None = None  # of the second layer in greedy training; None: as many as of the first
    batch_size: int | None = None  # None: as large as the learning rates allow
    minibatch_rule: str = "sequential"
    inference: str = "exact"
    test_inference: str = "exact"  # of new points
    backend: str = "numba"
    dtype: str = "float32"
    shuffle: bool = True
    stopping: bool = False  # by the likelihood, Section 4.3.2
    stopping_width: int = 20  # iterations in the moving window
    greedy: bool = False  # first W, then R on cached activities; recurrent networks then go on with both
    tolerance: float | None = None  # stop when the log-likelihood rises by less than this per point and iteration
    truncated: TruncationSettings = field(default_factory=TruncationSettings)
    committee: int = 1  # separated softmax groups of C units each, which feed one top layer (the paper's outlook)
    class_prior: Any = None  # p(k), one number per class; None: all classes are equally likely
    label_noise: Any = None  # the share of wrong labels, or p(label | class) as a matrix; None: labels are right

    def __post_init__(self) -> None:
        get_network(self.network)
        check_backend(self.backend)
        _check_choice("minibatch_rule", self.minibatch_rule, tuple(MINIBATCH_RULES))
        _check_choice("inference", self.inference, INFERENCES)
        _check_choice("test_inference", self.test_inference, INFERENCES)
        if self.test_inference == "truncated" and self.committee > 1:
            raise NesiError(
                f"Truncated inference of new points is for a single network, but committee is {self.committee}: "
                "use exact inference."
            )
        _check_choice("dtype", self.dtype, ("float32", "float64"))
        check_number("C (the number of subclasses)", self.C, 1, whole=True)
        check_number("committee", self.committee, 1, whole=True)
        check_number("iterations", self.iterations, 0, whole=True)
        if self.iterations_R is not None:
            check_number("iterations_R", self.iterations_R, 1, whole=True)
        check_number("stopping_width", self.stopping_width, 2, whole=True)
        check_number("epsilon_W", self.epsilon_W, 0)
        check_number("epsilon_R", self.epsilon_R, 0)
        check_number("threshold", self.threshold, 0)
        if self.tolerance is not None:
            check_number("tolerance", self.tolerance, 0)
        if self.batch_size is not None:
            check_number("batch_size", self.batch_size, 1, whole=True)

    @property
    def units(self) -> int:
        """Of all members of the committee together."""
        return self.C * self.committee

    @property
    def phases(self) -> tuple[str, ...]:
        """Which layers learn, one phase after the other."""
        return training_phases(self.network, self.greedy)

    def iterations_of(self, phase: str) -> int:
        """At most; training that converges ends earlier."""
        return self.iterations_R if phase == "second" and self.iterations_R is not None else self.iterations


def _check_choice(name: str, given: Any, known: tuple[str, ...]) -> None:
    if given not in known:
        raise NesiError(f"{name} is {given!r}, but must be one of {', '.join(known)}.")


def check_number(name: str, given: Any, smallest: float, whole: bool = False) -> None:
    kinds = (int, np.integer) if whole else (int, float, np.integer, np.floating)
    if isinstance(given, bool) or not isinstance(given, kinds) or not given >= smallest or given == np.inf:
        kind = "whole number" if whole else "number"
        raise NesiError(f"{name} is {given!r}, but must be a {kind} of at least {smallest:g}.")
