"""What a value in a parameter file may be. Everything is strict: `C: "10"` and `stopping: 1` are mistakes."""

from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

NetworkName = Literal["ff", "r", "ff+", "r+"]
NETWORKS: tuple[str, ...] = get_args(NetworkName)
Inference = Literal["exact", "truncated"]
Training = Literal["online", "em"]
Spreading = Literal["units", "points", "auto"]
Backend = Literal["numba", "c", "jax"]
Precision = Literal["float32", "float64"]
MinibatchRule = Literal["sequential", "summed"]

Switch = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=1, le=1_000_000_000)]
Size = Annotated[int, Field(strict=True, ge=1, le=10_000_000)]
SizeOrZero = Annotated[int, Field(strict=True, ge=0, le=10_000_000)]
Width = Annotated[int, Field(strict=True, ge=2, le=10_000_000)]
Amount = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
Rate = Annotated[float, Field(strict=True, ge=0, le=1e6, allow_inf_nan=False)]
Share = Annotated[float, Field(strict=True, ge=0, le=1)]
Name = Annotated[str, Field(strict=True, min_length=1, max_length=1000)]
Labels = Annotated[int, Field(strict=True, ge=0, le=1_000_000_000)] | Literal["all"]  # 0 only with field_labels
DataOption = (
    Switch
    | Annotated[int, Field(strict=True)]
    | Annotated[float, Field(strict=True, allow_inf_nan=False)]
    | Annotated[str, Field(strict=True, max_length=1000)]
    | Annotated[list[Annotated[str, Field(strict=True, max_length=1000)]], Field(max_length=1000)]
    | Annotated[list[Annotated[int, Field(strict=True)]], Field(max_length=1000)]  # a size, or columns by their number
    | None
)


class Section(BaseModel):
    """A group of keys: unknown ones are refused, and nothing changes once it is checked."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class WeightFile(Section):
    """Weights to start from: an h5 file of the authors' program, or the folder with its Run<r>M<i>L<j>.h5."""

    h5: Name


WStart = Literal["auto", "data", "class_means", "points", "single_points", "random", "even"] | WeightFile
RStart = Literal["uniform", "delta", "points", "random"] | WeightFile


def shown(value: Any) -> str:
    """A value as part of a sentence."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, RecursionError):  # an integer of more than 4300 digits has no repr
        text = f"a very large {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
