"""What `NeSiClassifier` chooses where it was told nothing, and what it has where the number of units was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nesi.automatic import Choice, Facts, choices
from nesi.training.settings import ESTIMATOR_NAMES

AUTO, NO = "auto", "no"
# What is chosen (its name in parameter files -> here), and what it is where it is not.
_NAMES = {name: ESTIMATOR_NAMES.get(name, name) for name in (
    "C", "A", "network", "epsilon_W", "epsilon_R", "iterations", "batch_size", "inference", "greedy", "spread",
    "training", "tolerance", "W_init", "R_init", "n_init",
)}  # fmt: skip
STANDARD: dict[str, Any] = {
    "network": "ff+",
    "epsilon_w": 0.2,
    "epsilon_r": 0.2,
    "max_iter": 100,
    "inference": "exact",
    "greedy": False,
    "training": "online",
    "n_init": 1,
}
_AUTO_IS_A_VALUE = ("spread", "W_init")  # "auto" has a meaning of its own there
_NO_IS_NONE = ("spread", "tol")


def chooses_all(given: Mapping[str, Any]) -> bool:
    """Whether everything that is left out is chosen: it is, unless the number of units is given."""
    return _is_open(given, "n_subclasses")


def chosen_parameters(given: Mapping[str, Any], facts: Facts) -> tuple[dict[str, Any], dict[str, Choice]]:
    """All parameters with a value, and what of it was chosen, and why; under the names of `NeSiClassifier`."""
    whole = chooses_all(given)
    left = {
        key
        for key, name in _NAMES.items()
        if (_is_open(given, name) and (whole or key == "A" or given[name] is not None))
    }
    known = {key: _plain(given, name) for key, name in _NAMES.items() if key not in left}
    known = {key: value for key, value in known.items() if not (key in ("W_init", "R_init") and value is None)}
    known |= {"backend": given["backend"], "committee": given["committee"]}
    known |= {"stopping": True} if given["stopping"] else {}
    found = choices(facts, known) if left else {}
    chosen = {_NAMES[key]: choice for key, choice in found.items() if key in left}
    return {**standard_parameters(given), **{name: choice.value for name, choice in chosen.items()}}, chosen


def standard_parameters(given: Mapping[str, Any]) -> dict[str, Any]:
    """Where nothing is chosen: a stream, of which only a part is known, or a given number of units."""
    values = {name: _plain(given, name) for name in given}
    return values | {name: value for name, value in STANDARD.items() if _is_open(given, name)}


def standard_units(n_points: int, n_classes: int) -> int:
    return min(10000, max(n_classes, n_points // 6, 1))


def _is_open(given: Mapping[str, Any], name: str) -> bool:
    value = given[name]
    return value is None or (name not in _AUTO_IS_A_VALUE and isinstance(value, str) and value == AUTO)


def _plain(given: Mapping[str, Any], name: str) -> Any:
    value = given[name]
    if name in _NO_IS_NONE and isinstance(value, str) and value == NO:
        return None
    if name in _NAMES.values() and _is_open(given, name):
        return STANDARD.get(name)
    return value
