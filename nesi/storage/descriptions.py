"""What the description inside a file must look like before anything is made of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from nesi.errors import NesiError, one_line


class Description(BaseModel):
    """Plain data with types; what a later version has added is passed over."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


D = TypeVar("D", bound=Description)


def read_description(kind: type[D], about: Any, path: Path) -> D:
    try:
        return kind.model_validate(about)
    except ValidationError as error:
        first = error.errors()[0]
        entry = ".".join(map(str, first["loc"])) or "all of it"
        reason = one_line(first["msg"])[:150]
        raise NesiError(f"{path}: damaged or not written by NeSi ({entry[:60]}: {reason}).") from None
