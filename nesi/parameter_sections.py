"""The groups of keys inside a parameter file, and what a value may be."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator

Network = Literal["ff", "r", "ff+", "r+"]
NETWORKS: tuple[str, ...] = get_args(Network)
Inference = Literal["exact", "truncated"]
Backend = Literal["numba", "c", "jax"]

Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Size = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
Rate = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
Width = Annotated[int, Field(strict=True, ge=2, le=10_000_000)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Labels = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)] | Literal["all"]  # 0 only with field_labels
Option = (
    Annotated[bool, Field(strict=True)]
    | Annotated[int, Field(strict=True)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[str, Field(strict=True, max_length=1000)]
    | Annotated[list[Annotated[str, Field(strict=True, max_length=1000)]], Field(max_length=1000)]
    | None
)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class TruncatedOptions(Section):
    """How the truncated posterior looks for the best units of a data point."""

    active: Size = 10  # units with a posterior above zero, per point
    neighbours: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 8  # of each of the best units
    leaders: Size = 3  # how many of the best units bring their neighbours
    strangers: Annotated[int, Field(strict=True, ge=0, le=10_000_000)] = 2  # random units that are tried


class FieldLabelOptions(Section):
    """Labels for fields instead of labels for training points (Section 4.5, Appendix B.3)."""

    fields: Size  # how many fields are asked about
    choose: Literal["random", "informative"] = "random"  # which ones: the paper's way, or those that say most first
    by: Literal["oracle", "person"] = "oracle"  # a person answers on the page of `python -m nesi label`
    answers: Literal["class", "distribution"] = "class"  # the oracle is sure, or says how the classes are mixed
    spread: Annotated[bool, Field(strict=True)] = False  # answers count for fields that share points, too


class TuningOptions(Section):
    """What `python -m nesi tune` searches: the number of labels it may use, and the values of each free parameter."""

    labels: Count
    grid: dict[Literal["C", "A", "epsilon_W", "epsilon_R", "threshold"], Annotated[list[Any], Field(min_length=1)]]
    repeats: Size = 1

    @field_validator("grid")
    @classmethod
    def _values_are_numbers(cls, grid: dict[str, list[Any]]) -> dict[str, list[Any]]:
        for key, values in grid.items():
            for value in values:
                if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
                    raise ValueError(f"{key} holds {shown(value)}, but a number >= 0 was expected")
        return grid


class WeightFile(Section):
    """Weights to start from: an h5 file of the authors' program, or the folder with its Run<r>M<i>L<j>.h5."""

    h5: Annotated[str, Field(strict=True, min_length=1, max_length=1000)]


Amount = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
WStart = Literal["auto", "data", "class_means", "points", "single_points", "random", "even"] | WeightFile
RStart = Literal["uniform", "delta", "points", "random"] | WeightFile


class PerRun(Section):
    """Settings that change from run to run: one value for every run."""

    labels: list[Count] | None = None
    train_size: list[Size] | None = None
    test_size: list[Size] | None = None
    C: list[Size] | None = None
    A: list[Amount] | None = None
    epsilon_W: list[Rate] | None = None
    epsilon_R: list[Rate] | None = None
    iterations: list[Size] | None = None
    iterations_R: list[Size] | None = None
    batch_size: list[Size] | None = None

    def lists(self) -> dict[str, list[Any]]:
        return self.model_dump(exclude_none=True)


class CellOverride(Section):
    """Settings that differ for some networks and numbers of labels; a missing `networks` or `labels` means all."""

    networks: list[Network] | None = None
    labels: list[Labels] | None = None
    C: Size | None = None
    committee: Size | None = None
    A: Amount | None = None
    epsilon_W: Rate | None = None
    epsilon_R: Rate | None = None
    threshold: Annotated[float, Field(strict=True, ge=0, le=1)] | None = None
    iterations: Size | None = None
    batch_size: Size | None = None
    minibatch_rule: Literal["sequential", "summed"] | None = None
    inference: Inference | None = None
    stopping: Annotated[bool, Field(strict=True)] | None = None
    stopping_width: Width | None = None
    greedy: Annotated[bool, Field(strict=True)] | None = None
    tolerance: Rate | None = None
    W_init: WStart | None = None
    R_init: RStart | None = None

    def changes(self) -> dict[str, Any]:
        chosen = self.model_dump(exclude={"networks", "labels"}, exclude_none=True)
        return {key: getattr(self, key) for key in chosen}


def shown(value: Any) -> str:
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer of more than 4300 digits has no repr
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
