"""The groups of keys inside a parameter file."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from nesi.config.declaration import chosen
from nesi.config.network_parameters import NetworkParameters
from nesi.config.values import Count, Section, Size, Switch, shown


class FieldLabelOptions(Section):
    """Labels for fields instead of labels for training points (Section 4.5, Appendix B.3)."""

    fields: Size  # how many fields are asked about
    choose: Literal["random", "informative"] = "random"  # which ones: the paper's way, or those that say most first
    by: Literal["oracle", "person"] = "oracle"  # a person answers on the page of `python -m nesi label`
    answers: Literal["class", "distribution"] = "class"  # the oracle is sure, or says how the classes are mixed
    spread: Switch = False  # answers count for fields that share points, too


class TuningOptions(Section):
    """What `python -m nesi tune` searches: the number of labels it may use, and the values of each free parameter."""

    labels: Count | None = None  # by default as many as the file has at most
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] | None = None  # by default around the values of the file
    repeats: Size = 1

    @field_validator("grid")
    @classmethod
    def _values_are_numbers(cls, grid: dict[str, list[Any]] | None) -> dict[str, list[Any]] | None:
        tunable = chosen(NetworkParameters, "tunable")
        for key, values in (grid or {}).items():
            if key not in tunable:
                raise ValueError(f"{shown(key)} cannot be tuned; choose from {', '.join(tunable)}")
            for value in values:
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
                    raise ValueError(f"{key} holds {shown(value)}, but must hold numbers of at least 0")
        return grid
