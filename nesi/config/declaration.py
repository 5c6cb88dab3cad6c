"""What a parameter means beyond its type and its default: said once, where the parameter is declared.

Overrides, values per run, the settings of a record, the identity of a first layer, the columns that tell rows of a
table apart, what may be tuned, what the paper's own algorithm has, and the names that the estimator uses are all
derived from here.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, create_model
from pydantic.fields import FieldInfo


@dataclass(frozen=True)
class Meaning:
    """The role of one parameter. Forgetting one of these may cost time, but never mixes up two results."""

    recorded: Literal["always", "unless default", "elsewhere"] = "always"  # among the settings of a record
    shapes_first_layer: bool = True  # may W of greedy training depend on it? Then it is part of the identity of W
    may_override: bool = False  # in `overrides`, for some networks and numbers of labels
    may_vary_by_run: bool = False  # in `per_run`
    tunable: bool = False  # in `tuning.grid`
    column: int | None = None  # its place among the columns that tell two rows of a table apart
    free_on_resume: bool = False  # may differ when a directory is continued: it changes no number in a record
    estimator_name: str | None = None  # what `NeSiClassifier` calls it, if it has another name for it
    paper: Any = ...  # what the paper's own algorithm has, whatever the data; `...` if that depends on the experiment


def meanings(model: type[BaseModel]) -> dict[str, Meaning]:
    """The meaning of every field, in the order of declaration."""
    found = {}
    for name, field in model.model_fields.items():
        declared = [entry for entry in field.metadata if isinstance(entry, Meaning)]
        if len(declared) != 1:
            raise TypeError(f"{model.__name__}.{name} needs exactly one Meaning")
        found[name] = declared[0]
    return found


def chosen(model: type[BaseModel], role: str) -> list[str]:
    """The fields whose meaning has `role` set."""
    return [name for name, meaning in meanings(model).items() if getattr(meaning, role)]


def values_of_the_paper(model: type[BaseModel]) -> dict[str, Any]:
    """What the paper's own algorithm has wherever it is used."""
    return {name: meaning.paper for name, meaning in meanings(model).items() if meaning.paper is not ...}


def columns(model: type[BaseModel]) -> tuple[str, ...]:
    """What tells two rows of a table apart, in the order of the columns."""
    places = {name: meaning.column for name, meaning in meanings(model).items() if meaning.column is not None}
    return tuple(sorted(places, key=lambda name: places[name]))


def optional_copy(
    name: str, base: type[BaseModel], model: type[BaseModel], keys: Iterable[str], per_run: bool = False
) -> type[Any]:
    """A section with those fields of `model` that `keys` names: each may be left out, or is a list of one per run."""
    fields: dict[str, Any] = {}
    for key in keys:
        kind = _declared_type(model.model_fields[key])
        if per_run:
            kind = list[kind]  # type: ignore[valid-type]
        fields[key] = (kind | None, None)
    return create_model(name, __base__=base, __doc__=base.__doc__, __module__=base.__module__, **fields)


def _declared_type(field: FieldInfo) -> Any:
    """The type with its constraints, without the meaning."""
    constraints = [entry for entry in field.metadata if not isinstance(entry, Meaning)]
    strict = [Field(strict=True)] if getattr(field, "strict", None) else []
    kind: Any = field.annotation
    for entry in (*constraints, *strict):
        kind = Annotated[kind, entry]
    return kind
