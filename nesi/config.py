"""The typed, validated form of a parameter file.

Keys carry the paper's symbols (C, A, epsilon_W, ...). Everything that can change a number in the records is here and
is written, fully resolved, to `params.yaml` beside them; machine settings are not.
"""

import difflib
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from nesi.errors import NesiError
from nesi.legacy.options import LegacyOptions, LegacyOutput
from nesi.parameter_sections import (
    NETWORKS as NETWORKS,
)
from nesi.parameter_sections import (
    Amount,
    Backend,
    CellOverride,
    FieldLabelOptions,
    Inference,
    Labels,
    Network,
    Option,
    PerRun,
    Rate,
    RStart,
    Section,
    Share,
    Size,
    TruncatedOptions,
    TuningOptions,
    WeightFile,
    Width,
    WStart,
    shown,
)
from nesi.yaml_files import parse_yaml, read_yaml


class ExperimentParameters(Section):
    """One experiment: a data set, the free parameters of the paper, and the cells of the table to run."""

    dataset: Annotated[str, Field(strict=True, min_length=1, max_length=1000)]
    data: dict[Annotated[str, Field(strict=True, max_length=60)], Option] = Field(default_factory=dict)
    train_size: Size | None = None
    test_size: Size | None = None  # test points, equally many per class
    experiment: Annotated[str, Field(strict=True, min_length=1, max_length=100)] | None = None

    C: Size
    committee: Size = 1  # separated softmax groups of C units each
    class_prior: list[Share] | None = None  # p(k), one number per class; all equal by default
    label_noise: Share | list[list[Share]] | None = None  # share of wrong labels, or p(label | class), a row per class
    A: Amount
    epsilon_W: Rate
    epsilon_R: Rate
    threshold: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.6
    iterations: Size
    iterations_R: Size | None = None  # of the second layer in greedy training, if other than those of the first

    networks: Annotated[list[Network], Field(min_length=1)]
    labels: Annotated[list[Labels], Field(min_length=1)]
    runs: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 10
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**64)] = 1

    inference: Inference = "exact"
    test_inference: Inference = "exact"  # of the test points
    truncated: TruncatedOptions = TruncatedOptions()
    backend: Backend = "numba"
    dtype: Literal["float32", "float64"] = "float32"
    batch_size: Size | None = None  # as large as the learning rates allow
    minibatch_rule: Literal["sequential", "summed"] = "sequential"
    shuffle: Annotated[bool, Field(strict=True)] = True
    stopping: Annotated[bool, Field(strict=True)] = False
    stopping_width: Width = 20  # iterations in the moving window
    greedy: Annotated[bool, Field(strict=True)] = False
    share_first_layer: Annotated[bool, Field(strict=True)] = False  # greedy: one W for all runs, not one per run
    tolerance: Rate | None = None  # end early when the log-likelihood hardly rises any more
    W_init: WStart | None = None
    R_init: RStart | None = None
    field_labels: FieldLabelOptions | None = None
    class_assignment: Literal["implicit", "hard max"] = "implicit"  # by the learned R, or one class per field (ff)
    overrides: list[CellOverride] = Field(default_factory=list)
    per_run: PerRun | None = None
    legacy: LegacyOptions | None = None  # true: all quirks of the authors' program

    threads: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    keep_weights: Literal["first", "all", "none"] = "first"
    test_error_every: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 0
    checkpoint_seconds: Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)] = 60.0
    tuning: TuningOptions | None = None

    @field_validator("data")
    @classmethod
    def _only_options_of_the_data_set(cls, data: dict[str, Any]) -> dict[str, Any]:
        for key in ("name_or_path", "data_dir"):
            if key in data:
                raise ValueError(f"'{key}' is not an option of a data set; use 'dataset' and --data-dir")
        return data

    @field_validator("networks", "labels")
    @classmethod
    def _each_once(cls, values: list[Any]) -> list[Any]:
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"{value} is listed twice")
        return values

    @field_validator("legacy", mode="before")
    @classmethod
    def _all_or_nothing(cls, legacy: Any) -> Any:
        if isinstance(legacy, bool):
            return LegacyOptions.all_quirks() if legacy else None
        if legacy is not None and not isinstance(legacy, dict | LegacyOptions):
            raise ValueError(f"{shown(legacy)} was given, but true, false or a mapping of quirks was expected")
        return legacy

    @model_validator(mode="after")
    def _one_value_per_run(self) -> "ExperimentParameters":
        for key, values in (self.per_run.lists() if self.per_run else {}).items():
            if len(values) != self.runs:
                raise ValueError(f"per_run: {key} has {len(values)} values, but there are {self.runs} runs")
        return self

    @model_validator(mode="after")
    def _labels_are_for_points_or_for_fields(self) -> "ExperimentParameters":
        if self.field_labels is None and 0 in self.labels:
            raise ValueError("labels holds 0, but a whole number from 1 on, or all, was expected (0: see field_labels)")
        if self.field_labels is not None and self.labels != [0]:
            raise ValueError("field_labels is for training without labels of points; use it with 'labels: [0]'")
        if self.field_labels is not None and self.R_init is not None:
            raise ValueError("R_init has no use with field_labels, as R comes from the labels; leave it out")
        if self.field_labels is not None and (self.legacy or self.per_run or self.class_assignment != "implicit"):
            raise ValueError("field_labels goes neither with legacy, per_run nor class_assignment; leave these out")
        return self

    @model_validator(mode="after")
    def _overrides_meet_a_cell(self) -> "ExperimentParameters":
        for number, override in enumerate(self.overrides, start=1):
            if not override.changes():
                raise ValueError(f"overrides, entry {number}, changes nothing")
        return self

    @model_validator(mode="after")
    def _hard_classes_are_for_feedforward_networks(self) -> "ExperimentParameters":
        if self.class_assignment == "hard max" and not {*self.networks} <= {"ff", "ff+"}:
            raise ValueError("class_assignment is 'hard max', which is for ff and ff+; leave the other networks out")
        return self

    @model_validator(mode="after")
    def _a_committee_has_its_own_class_layer(self) -> "ExperimentParameters":
        if self.committee > 1 and (self.field_labels is not None or self.class_assignment != "implicit"):
            name = "class_assignment" if self.field_labels is None else "field_labels"
            raise ValueError(f"{name} is for a single network, but committee is {self.committee}; leave one out")
        return self

    @model_validator(mode="after")
    def _shared_layers_see_the_same_points(self) -> "ExperimentParameters":
        if self.share_first_layer and self.train_size is not None:
            raise ValueError(
                "share_first_layer is on, but with train_size every run has training points of its own; "
                "leave one of the two out"
            )
        return self

    def for_run(self, run: int) -> "ExperimentParameters":
        """The parameters of one run, counted from 1."""
        changes = {key: values[run - 1] for key, values in (self.per_run.lists() if self.per_run else {}).items()}
        if "labels" in changes:
            changes["labels"] = [changes["labels"]]
        return self.model_copy(update=changes)

    def for_cell(self, network: str, labels: int, n_train: int) -> "ExperimentParameters":
        """The parameters of one cell of the table, with its overrides applied (later entries win)."""
        changes: dict[str, Any] = {}
        for override in self.overrides:
            label_numbers = [n_train if entry == "all" else entry for entry in override.labels or [labels]]
            if (override.networks is None or network in override.networks) and labels in label_numbers:
                changes.update(override.changes())
        return self.model_copy(update=changes)

    def widened(self, other: "ExperimentParameters", n_train: int) -> "ExperimentParameters":
        """With the cells and runs of the other as well."""
        known = [n_train if entry == "all" else entry for entry in self.labels]
        new_labels = [entry for entry in other.labels if (n_train if entry == "all" else entry) not in known]
        new_networks = [network for network in other.networks if network not in self.networks]
        more = {"labels": [*self.labels, *new_labels], "networks": [*self.networks, *new_networks]}
        return self.model_copy(update={**more, "runs": max(self.runs, other.runs)})

    def to_yaml(self) -> str:
        """The whole of it as a parameter file."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False, default_flow_style=None, width=120)


# What may differ when a directory is continued: none of it changes a number in the records.
FREE_ON_RESUME = frozenset({"networks", "labels", "runs", "checkpoint_seconds", "keep_weights", "tuning"})


def load_parameters(path: Path, changes: dict[str, Any] | None = None) -> ExperimentParameters:
    """Read and validate the parameter file, with `changes` (dotted key -> value) on top."""
    content = read_yaml(path)
    if not isinstance(content, dict):
        raise NesiError(f"{path}: holds {shown(content)}, but lines of the form 'key: value' were expected.")
    return changed(content, changes or {}, str(path))


def changed(content: dict[Any, Any], changes: dict[str, Any], origin: str) -> ExperimentParameters:
    """`content` as checked parameters, with `changes` (dotted key -> value) on top."""
    for key, value in changes.items():
        _set_dotted(content, key, value)
    return validated(content, origin)


def validated(content: dict[Any, Any], origin: str) -> ExperimentParameters:
    """`content` as checked parameters; the error names key, value and remedy in one sentence."""
    try:
        return ExperimentParameters.model_validate(content)
    except ValidationError as error:
        raise NesiError(f"{origin}: {_explain(error)}") from None
    except (RecursionError, OverflowError) as error:
        raise NesiError(f"{origin}: cannot be read as parameters ({type(error).__name__}).") from None


def parse_assignment(text: str) -> tuple[str, Any]:
    """'key=value' of the option --set; the value is read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise NesiError(f"--set {shown(text)}: expected key=value, for instance --set C=1000.")
    return key.strip(), parse_yaml(value, f"--set {key.strip()[:60]}")


def nearest_key(key: str, known: list[str]) -> str | None:
    """The known key that `key` was probably meant to be."""
    lowered = {name.lower(): name for name in known}
    close = difflib.get_close_matches(key.lower()[:100], list(lowered), n=1, cutoff=0.5)
    return lowered[close[0]] if close else None


def first_difference(stored: ExperimentParameters, given: ExperimentParameters) -> str | None:
    """Which key keeps a directory from being continued, with both values; None if nothing does."""
    for key in type(stored).model_fields:
        before, now = getattr(stored, key), getattr(given, key)
        if key not in FREE_ON_RESUME and before != now:
            return f"'{key}' (stored: {shown(_plain(before))}, given: {shown(_plain(now))})"
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.model_dump(exclude_none=True) if isinstance(value, BaseModel) else value


def _set_dotted(content: dict[Any, Any], key: str, value: Any) -> None:
    *parents, last = key.split(".")
    for parent in parents:
        inner = content.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise NesiError(f"--set {key[:60]}: '{parent[:60]}' is not a group of keys.")
        content = inner
    content[last] = value


def _explain(error: ValidationError) -> str:
    # A misspelt key shows up twice, as unknown and as missing: the first of the two says more.
    errors = error.errors(include_url=False)
    first = next((entry for entry in errors if entry["type"] == "extra_forbidden"), errors[0])
    unknown = first["type"] == "extra_forbidden"
    location = [part for part in first["loc"] if part != "WeightFile" and (unknown or not _is_type_tag(part))]
    name = repr(".".join(str(part) for part in location)[:80])[1:-1]  # control characters become visible
    if unknown:
        known = list(_model_at(location[:-1]).model_fields)
        near = nearest_key(str(location[-1]), known)
        hint = f"did you mean '{near}'?" if near else f"known keys are {', '.join(known)}."
        return f"unknown key '{name}'; {hint}"
    if first["type"] == "missing":
        return f"the key '{name}' is missing."
    message = first["msg"].removeprefix("Value error, ")
    if first["type"] == "value_error":
        return f"{name}: {message}." if name else f"{message}."
    if "labels" in location and location[0] != "tuning":
        message = "Input should be a whole number from 1 on, or all"
    return f"{name} is {shown(first['input'])}: {message[:1].lower()}{message[1:]}."


def _is_type_tag(part: Any) -> bool:
    """pydantic adds the tried alternative of a union to the location ('int', 'literal[...]'); users need not see it."""
    return isinstance(part, str) and (
        "[" in part or part in {"int", "float", "str", "bool", "none", "constrained-int", "constrained-str"}
    )


def _model_at(location: list[Any]) -> type[BaseModel]:
    if location[-1:] in (["W_init"], ["R_init"]):
        return WeightFile
    if location[:1] == ["truncated"]:
        return TruncatedOptions
    if location[:1] == ["field_labels"]:
        return FieldLabelOptions
    if location[:1] == ["tuning"]:
        return TuningOptions
    if location[:1] == ["overrides"]:
        return CellOverride
    if location[:1] == ["per_run"]:
        return PerRun
    if location[:1] == ["legacy"]:
        return LegacyOutput if location[1:2] == ["output"] else LegacyOptions
    return ExperimentParameters
