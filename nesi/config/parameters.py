"""The typed, validated form of a parameter file.

Keys carry the paper's symbols (C, A, epsilon_W, ...). Everything that can change a number in the records is here and
is written, fully resolved, to `params.yaml` beside them; machine settings are not.
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from nesi.config.declaration import Meaning, chosen, meanings, optional_copy, values_of_the_paper
from nesi.config.explanation import explain
from nesi.config.left_out import with_stand_ins
from nesi.config.legacy_options import LegacyOptions
from nesi.config.network_parameters import NetworkParameters
from nesi.config.sections import FieldLabelOptions, TuningOptions
from nesi.config.values import (
    Count,
    DataOption,
    Labels,
    Name,
    NetworkName,
    RStart,
    Section,
    Size,
    Switch,
    WStart,
    shown,
)
from nesi.errors import NesiError


class _CellsAndData(Section):
    """Which data, which algorithm, and which cells of the table."""

    # fast: as the file says; paper: the paper's own algorithm (`nesi.config.paper_mode`).
    mode: Annotated[Literal["fast", "paper"], Meaning("unless default", shapes_first_layer=False, column=0)] = "fast"
    dataset: Annotated[Name, Meaning("elsewhere")]
    data: Annotated[dict[Annotated[str, Field(strict=True, max_length=60)], DataOption], Meaning("elsewhere")] = Field(
        default_factory=dict
    )
    train_size: Annotated[Size | None, Meaning(may_vary_by_run=True, column=14)] = None
    test_size: Annotated[  # test points, equally many per class
        Size | None, Meaning("unless default", shapes_first_layer=False, may_vary_by_run=True)
    ] = None
    experiment: Annotated[
        Annotated[str, Field(strict=True, min_length=1, max_length=100)] | None, Meaning("elsewhere")
    ] = None
    networks: Annotated[
        list[NetworkName], Field(min_length=1), Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)
    ]
    labels: Annotated[
        list[Labels], Field(min_length=1), Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)
    ]
    runs: Annotated[
        int, Field(strict=True, ge=1, le=1_000_000), Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)
    ] = 10
    seed: Annotated[int, Field(strict=True, ge=0, lt=2**64), Meaning("elsewhere")] = 1


class _StartAndExecution(Section):
    """Where training starts, what differs between cells, and how runs are executed and kept."""

    # Set by the program: the file asks for truncated posteriors, which the backend does not have.
    full_posteriors_instead: Annotated[Switch, Meaning("unless default", shapes_first_layer=False)] = False
    # What goes to workers: whole runs, or the parts of the data, from which all workers learn one network together.
    distribute: Annotated[Literal["runs", "data"], Meaning("unless default", shapes_first_layer=False)] = "runs"
    parts: Annotated[Size | None, Meaning("unless default", shapes_first_layer=False)] = None
    share_first_layer: Annotated[Switch, Meaning(paper=False)] = False  # greedy: one W for all runs, not one per run
    W_init: Annotated[WStart | None, Meaning(may_override=True, column=10, paper=None)] = None
    R_init: Annotated[RStart | None, Meaning(may_override=True, column=11, paper=None)] = None
    field_labels: Annotated[FieldLabelOptions | None, Meaning("elsewhere")] = None
    # By the learned R, or one class per field (ff).
    class_assignment: Annotated[
        Literal["implicit", "hard max"], Meaning("unless default", shapes_first_layer=False, column=7)
    ] = "implicit"
    # Their effect is in the parameters of each cell and run.
    overrides: Annotated[list["CellOverride"], Meaning("elsewhere", shapes_first_layer=False)] = Field(
        default_factory=list
    )
    per_run: Annotated["PerRun | None", Meaning("elsewhere", shapes_first_layer=False)] = None
    # What the paper has in these cells and no declaration knows; used with `mode: paper`.
    paper: Annotated["PaperSettings | None", Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)] = None
    legacy: Annotated[LegacyOptions | None, Meaning("elsewhere")] = None  # true: all quirks of the authors' program
    threads: Annotated[Annotated[int, Field(strict=True, ge=1, le=4096)] | None, Meaning("elsewhere")] = None
    keep_weights: Annotated[
        Literal["first", "all", "none"], Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)
    ] = "first"
    test_error_every: Annotated[
        int, Field(strict=True, ge=0, le=10_000_000), Meaning("elsewhere", shapes_first_layer=False)
    ] = 0
    checkpoint_seconds: Annotated[
        float,
        Field(strict=True, ge=0, le=1e9, allow_inf_nan=False),
        Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True),
    ] = 60.0
    tuning: Annotated[TuningOptions | None, Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)] = None
    # Set by the program: what was left to it, and why it chose what it did; "" until the data is known.
    automatic: Annotated[dict[str, str], Meaning("elsewhere", shapes_first_layer=False, free_on_resume=True)] = Field(
        default_factory=dict
    )


class _SomeCells(Section):
    """Settings that differ for some networks and numbers of labels; a missing `networks` or `labels` means all."""

    networks: list[NetworkName] | None = None
    labels: list[Labels] | None = None

    def changes(self) -> dict[str, Any]:
        given = {key: getattr(self, key) for key in type(self).model_fields if key not in ("networks", "labels")}
        return {key: value for key, value in given.items() if value is not None}

    def covers(self, network: str, labels: int, all_labels: int) -> bool:
        numbers = [all_labels if entry == "all" else entry for entry in self.labels or [labels]]
        return (self.networks is None or network in self.networks) and labels in numbers


class _ListsByRun(Section):
    """Settings that change from run to run: one value for every run."""

    labels: list[Count] | None = None

    def lists(self) -> dict[str, list[Any]]:
        return self.model_dump(exclude_none=True)


class _CellsOfThePaper(Section):
    """Settings of the paper's own algorithm in this experiment, with overrides of its own."""

    overrides: list["CellOverride"] = Field(default_factory=list)


class _EveryParameter(_StartAndExecution, NetworkParameters, _CellsAndData):
    """All keys of a parameter file, in the order in which `params.yaml` lists them."""


if TYPE_CHECKING:
    CellOverride = _SomeCells
    PerRun = _ListsByRun
    PaperSettings = _CellsOfThePaper
else:
    _MAY_OVERRIDE = chosen(_EveryParameter, "may_override")
    _WITH_MODE = [*_MAY_OVERRIDE, *(key for key in values_of_the_paper(_EveryParameter) if key not in _MAY_OVERRIDE)]
    CellOverride = optional_copy("CellOverride", _SomeCells, _EveryParameter, _MAY_OVERRIDE)
    PerRun = optional_copy("PerRun", _ListsByRun, _EveryParameter, chosen(_EveryParameter, "may_vary_by_run"), True)
    PaperSettings = optional_copy("PaperSettings", _CellsOfThePaper, _EveryParameter, _WITH_MODE)


class ExperimentParameters(_EveryParameter):
    """One experiment: a data set, the free parameters of the paper, and the cells of the table to run."""

    @model_validator(mode="before")
    @classmethod
    def _some_is_left_to_the_program(cls, content: Any) -> Any:
        if not isinstance(content, dict) or content.get("legacy"):
            return content
        return with_stand_ins(content)

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

    @field_validator("iterations")
    @classmethod
    def _at_least_one_iteration(cls, iterations: int) -> int:
        if iterations < 1:
            raise ValueError(f"{iterations} was given, but a run needs at least 1 iteration")
        return iterations

    @field_validator("legacy", mode="before")
    @classmethod
    def _all_or_nothing(cls, legacy: Any) -> Any:
        if isinstance(legacy, bool):
            return LegacyOptions.all_quirks() if legacy else None
        if legacy == {}:
            raise ValueError("the mapping is empty; name the quirks that should be on, or write legacy: false")
        if legacy is not None and not isinstance(legacy, dict | LegacyOptions):
            raise ValueError(f"{shown(legacy)} was given, but must be true, false or a mapping of quirks")
        return legacy

    @model_validator(mode="after")
    def _one_value_per_run(self) -> Self:
        for key, values in (self.per_run.lists() if self.per_run else {}).items():
            if len(values) != self.runs:
                raise ValueError(f"per_run: {key} has {len(values)} values, but there are {self.runs} runs")
        return self

    @model_validator(mode="after")
    def _labels_are_for_points_or_for_fields(self) -> Self:
        if self.field_labels is None and 0 in self.labels:
            raise ValueError("labels holds 0, but must hold positive integers or all (0: see field_labels)")
        if self.field_labels is not None and self.labels != [0]:
            raise ValueError("field_labels is for training without labels of points; use it with 'labels: [0]'")
        if self.field_labels is not None and self.spread is not None:
            raise ValueError("spread is for labels of points; for labels of fields there is field_labels.spread")
        if self.field_labels is not None and self.R_init is not None:
            raise ValueError("R_init has no use with field_labels, as R comes from the labels; leave it out")
        if self.field_labels is not None and (self.legacy or self.per_run or self.class_assignment != "implicit"):
            raise ValueError("field_labels cannot be combined with legacy, per_run or class_assignment; leave them out")
        return self

    @model_validator(mode="after")
    def _overrides_change_something(self) -> Self:
        for number, override in enumerate(self.overrides, start=1):
            if not override.changes():
                raise ValueError(f"overrides, entry {number}, changes nothing")
        return self

    @model_validator(mode="after")
    def _em_is_for_the_recurrent_network(self) -> Self:
        if self.training == "em" and (
            self.networks != ["r"] or self.field_labels is not None or self.legacy is not None
        ):
            raise ValueError(
                "training is 'em', which is EM for the model of r; use it with networks: [r], and with neither legacy "
                "nor field_labels"
            )
        return self

    @model_validator(mode="after")
    def _the_paper_chose_itself(self) -> Self:
        if self.mode == "paper" and self.automatic:
            left = ", ".join(self.automatic)
            raise ValueError(f"mode is 'paper', which has no automatic choices; say {left}, or leave the mode out")
        return self

    @model_validator(mode="after")
    def _the_paper_has_no_quirks(self) -> Self:
        if self.mode == "paper" and self.legacy is not None:
            raise ValueError(
                "mode is 'paper', but legacy switches on quirks of the authors' program; leave one of the two out"
            )
        return self

    @model_validator(mode="after")
    def _many_workers_learn_by_the_sequential_rule(self) -> Self:
        if self.distribute == "runs":
            if self.parts is not None:
                raise ValueError(f"parts is {self.parts}, which is for distribute: data; leave it out")
            return self
        needed: dict[str, Any] = {
            "minibatch_rule": "sequential",
            "training": "online",
            "backend": "numba",
            "class_assignment": "implicit",
            "share_first_layer": False,
            "spread": None,
            "field_labels": None,
            "legacy": None,
        }
        for key, value in needed.items():
            if getattr(self, key) != value:
                raise ValueError(
                    f"distribute is 'data', which needs {key}: {'none' if value is None else value}, but {key} is "
                    f"{shown(_plain(getattr(self, key)))}"
                )
        return self

    @model_validator(mode="after")
    def _hard_classes_are_for_feedforward_networks(self) -> Self:
        if self.class_assignment == "hard max" and not {*self.networks} <= {"ff", "ff+"}:
            raise ValueError("class_assignment is 'hard max', which is for ff and ff+; leave the other networks out")
        return self

    @model_validator(mode="after")
    def _a_committee_has_its_own_class_layer(self) -> Self:
        if self.committee > 1 and (self.field_labels is not None or self.class_assignment != "implicit"):
            name = "class_assignment" if self.field_labels is None else "field_labels"
            raise ValueError(f"{name} is for a single network, but committee is {self.committee}; leave one out")
        return self

    @model_validator(mode="after")
    def _shared_layers_see_the_same_points(self) -> Self:
        if self.share_first_layer and self.train_size is not None:
            raise ValueError(
                "share_first_layer is on, but with train_size every run has training points of its own; "
                "leave one of the two out"
            )
        return self

    # ---- cells and runs ----------------------------------------------------------------------------------------

    def changed(self, **changes: Any) -> "ExperimentParameters":
        """A copy with some values changed, as thoroughly checked as a file."""
        given = ", ".join(f"{key} = {shown(_plain(value))}" for key, value in changes.items())
        return validated({**dict(self), **changes}, f"with {given}")

    def for_run(self, run: int) -> "ExperimentParameters":
        """The parameters of one run, counted from 1."""
        changes = {key: values[run - 1] for key, values in (self.per_run.lists() if self.per_run else {}).items()}
        if "labels" in changes:
            changes["labels"] = [changes["labels"]]
        return self.changed(**changes) if changes else self

    def for_cell(self, network: str, labels: int, all_labels: int) -> "ExperimentParameters":
        """The parameters of one cell of the table, with its overrides applied (later entries win)."""
        changes: dict[str, Any] = {}
        for override in self.overrides:
            if override.covers(network, labels, all_labels):
                changes.update(override.changes())
        return self.changed(**changes) if changes else self

    def widened(self, other: "ExperimentParameters", all_labels: int) -> "ExperimentParameters":
        """With the cells and runs of the other as well."""
        known = [all_labels if entry == "all" else entry for entry in self.labels]
        new_labels = [entry for entry in other.labels if (all_labels if entry == "all" else entry) not in known]
        new_networks = [network for network in other.networks if network not in self.networks]
        more = {"labels": [*self.labels, *new_labels], "networks": [*self.networks, *new_networks]}
        return self.changed(**more, runs=max(self.runs, other.runs))

    # ---- what is written down ----------------------------------------------------------------------------------

    def settings_for_record(self) -> dict[str, Any]:
        """All that can change a number, but for what the record says elsewhere (data set, network, labels, seed)."""
        declared = meanings(ExperimentParameters)
        always = {key for key, meaning in declared.items() if meaning.recorded == "always"}
        rarely = {key for key, meaning in declared.items() if meaning.recorded == "unless default"}
        settings = self.model_dump(mode="json", include=always)
        settings |= self.model_dump(mode="json", include=rarely, exclude_defaults=True)
        if self.legacy is not None and (legacy := self.legacy.for_record()):
            settings["legacy"] = legacy
        if self.inference == "truncated":
            settings["truncated"] = self.truncated.for_record()
        if self.field_labels is not None:
            settings["field_labels"] = self.field_labels.model_dump()
        return settings

    def to_yaml(self) -> str:
        """The whole of it as a parameter file."""
        content = self.model_dump(mode="json")
        content["overrides"] = [entry.model_dump(mode="json", exclude_none=True) for entry in self.overrides]
        if not self.automatic:
            del content["automatic"]
        if self.paper is not None:
            given = self.paper.model_dump(mode="json", exclude_unset=True)
            given["overrides"] = [entry.model_dump(mode="json", exclude_none=True) for entry in self.paper.overrides]
            content["paper"] = given
        return yaml.safe_dump(content, sort_keys=False, default_flow_style=None, width=120)


def validated(content: dict[Any, Any], origin: str) -> ExperimentParameters:
    """`content` as checked parameters; the error names key, value and remedy in one sentence."""
    try:
        return ExperimentParameters.model_validate(content)
    except ValidationError as error:
        raise NesiError(f"{origin}: {explain(error, ExperimentParameters)}") from None
    except (RecursionError, OverflowError) as error:
        raise NesiError(f"{origin}: cannot be read as parameters ({type(error).__name__}).") from None


def first_difference(stored: ExperimentParameters, given: ExperimentParameters) -> str | None:
    """Which key keeps a directory from being continued, with both values; None if nothing does."""
    free = chosen(ExperimentParameters, "free_on_resume")
    for key in ExperimentParameters.model_fields:
        before, now = getattr(stored, key), getattr(given, key)
        if key not in free and before != now:
            return f"'{key}' (stored: {shown(_plain(before))}, given: {shown(_plain(now))})"
    return None


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return value.model_dump(exclude_none=True) if isinstance(value, Section) else value
