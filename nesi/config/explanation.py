"""Why a value was refused: what was given, what was expected and what to do, in one sentence."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from nesi.config.values import shown


def explain(error: ValidationError, model: type[BaseModel], names: Mapping[str, str] | None = None) -> str:
    """The first thing that is wrong; `names` are what the user calls a key, where that is not its own name."""
    # A misspelt key shows up twice, as unknown and as missing: the first of the two says more.
    errors = error.errors(include_url=False)
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    unknown = first["type"] == "extra_forbidden"
    location = [part for part in first["loc"] if unknown or not _is_type_tag(part)]
    location = [part for part in location if not _is_model_tag(part)]
    if names and location:
        location[0] = names.get(str(location[0]), location[0])
    name = repr(".".join(str(part) for part in location)[:80])[1:-1]  # control characters become visible
    if unknown:
        known = list(_model_at(model, location[:-1]).model_fields)
        near = nearest_key(str(location[-1]), known)
        hint = f"did you mean '{near}'?" if near else f"known keys are {', '.join(known)}."
        return f"unknown key '{name}'; {hint}"
    if first["type"] == "missing":
        return f"the key '{name}' is missing."
    if first["type"] == "value_error":
        message = first["msg"].removeprefix("Value error, ").removesuffix(".")
        return f"{name}: {message}." if name else f"{message}."
    # Of several alternatives that a value could have been, name all the choices.
    same_place = [entry for entry in errors if [p for p in entry["loc"] if not _is_tag(p)] == list(_untagged(first))]
    wanted = " or ".join(dict.fromkeys(_expected(entry) for entry in same_place))
    if location[:1] == ["labels"] and len(location) > 1:
        wanted = "a positive integer, or all"
    return f"{name} is {shown(first['input'])}, but must be {wanted}."


def nearest_key(key: str, known: Iterable[str]) -> str | None:
    """The known key that `key` was probably meant to be."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower()[:100], list(lowered), n=1, cutoff=0.5)
    return lowered[close[0]] if close else None


def _expected(entry: Any) -> str:
    """What would have been right, as the end of 'but must be ...'."""
    limits = entry.get("ctx", {})
    phrases = {
        "greater_than_equal": "at least {ge:g}",
        "greater_than": "above {gt:g}",
        "less_than_equal": "at most {le:g}",
        "less_than": "below {lt:g}",
        "int_type": "an integer",
        "int_from_float": "an integer",
        "float_type": "a number",
        "bool_type": "true or false",
        "string_type": "text",
        "list_type": "a list",
        "dict_type": "a group of keys",
        "model_type": "a group of keys",
        "none_required": "left out",
        "finite_number": "finite",
        "literal_error": "one of {expected}",
        "too_short": "a list of at least {min_length}",
        "too_long": "a list of at most {max_length}",
        "string_too_short": "text of at least {min_length} characters",
        "string_too_long": "text of at most {max_length} characters",
    }
    if (phrase := phrases.get(entry["type"])) is not None:
        return phrase.format(**limits)
    message: str = entry["msg"]
    return message[:1].lower() + message[1:]


def _untagged(entry: Any) -> tuple[Any, ...]:
    return tuple(part for part in entry["loc"] if not _is_tag(part))


def _is_tag(part: Any) -> bool:
    return _is_type_tag(part) or _is_model_tag(part)


def _is_type_tag(part: Any) -> bool:
    """pydantic adds the tried alternative of a union to the location ('int', 'literal[...]'); users need not see it."""
    tags = {"int", "float", "str", "bool", "none"}
    return isinstance(part, str) and ("[" in part or part.startswith("constrained-") or part in tags)


def _is_model_tag(part: Any) -> bool:
    return part in ("WeightFile",)


def _model_at(model: type[BaseModel], location: list[Any]) -> type[BaseModel]:
    """The group of keys that a location inside the parameter file leads to."""
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            inner = list(_models_in(model.model_fields[part].annotation))
            if inner:
                model = inner[0]
    return model


def _models_in(annotation: Any) -> Iterable[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)
