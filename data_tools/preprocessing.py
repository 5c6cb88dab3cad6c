"""What made inputs of the training files, kept so that new files can be treated in the same way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError
from data_tools.signed import InputPairs

if TYPE_CHECKING:
    from data_tools.dataset import Dataset

#: How an image file becomes inputs: grey values; the characters of NIST SD19 as in Section 4.4; all of their pixels.
DECODERS = ("grey", "nist", "nist raw")


@dataclass(frozen=True)
class Preprocessing:
    """Plain data: it is stored as JSON with the weights."""

    n_inputs: int  # as the files have them; the network has twice as many if they are `signed`
    image_shape: tuple[int, int] | None = None
    decoder: str = "grey"
    resize: bool = False  # images of any size are brought to `image_shape`
    invert: bool = False
    vocabulary: tuple[str, ...] | None = None
    idf: tuple[float, ...] | None = None  # one weight per word
    columns: tuple[str, ...] | None = None  # of a table with a header, in the order of the inputs
    label_column: str | int | None = None  # what is passed over in new tables, where it is there at all
    ignored_columns: tuple[str | int, ...] = ()
    signed: bool = False  # every column has two inputs: positive and negative parts, or places in its range
    low: tuple[float, ...] | None = None  # the range of every column
    high: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for each in (self.vocabulary, self.idf, self.low, self.high):
            if each is not None and len(each) != self.n_inputs:
                raise DataError(f"{len(each)} words or weights for {self.n_inputs} inputs; give one per input.")
        if (self.low is None) != (self.high is None):
            raise DataError("ranges of columns have only one end; give both.")
        if self.image_shape is not None and self.image_shape[0] * self.image_shape[1] != self.n_inputs:
            raise DataError(f"images of {self.image_shape} pixels do not give {self.n_inputs} inputs; correct it.")
        if self.decoder not in DECODERS:
            raise DataError(f"the decoder of images is {self.decoder!r}, expected one of {', '.join(DECODERS)}.")

    @property
    def inputs_of_the_network(self) -> int:
        return 2 * self.n_inputs if self.signed else self.n_inputs

    @property
    def names_of_inputs(self) -> list[str] | None:
        """Of the network's, if they come from a table with a header."""
        if self.columns is None or not self.signed:
            return None if self.columns is None else list(self.columns)
        second = "-" if self.low is None else "low"
        return [*self.columns, *(f"{second} {name}" for name in self.columns)]

    @property
    def pairs(self) -> InputPairs | None:
        """How columns become inputs of the network, if they are not taken as they are."""
        return InputPairs(self.low, self.high) if self.signed else None

    def with_pairs(self, pairs: InputPairs) -> Preprocessing:
        return replace(self, signed=True, low=pairs.low, high=pairs.high)

    @property
    def word_weights(self) -> npt.NDArray[np.float64] | None:
        return None if self.idf is None else np.array(self.idf)

    def as_json(self) -> dict[str, Any]:
        """Only what differs from the defaults."""
        defaults = {entry.name: entry.default for entry in fields(self)}
        return {key: value for key, value in asdict(self).items() if value != defaults[key]}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any], origin: str) -> Preprocessing:
        from pydantic import TypeAdapter, ValidationError

        known = {entry.name for entry in fields(cls)}
        try:
            if isinstance(stored, Mapping) and (unknown := set(stored) - known):
                raise DataError(f"{origin}: {sorted(map(str, unknown))[0]!r} is not known as a way to make inputs.")
            return TypeAdapter(cls).validate_python(stored)
        except ValidationError as error:
            first = error.errors()[0]
            reason = ": ".join([*(str(place) for place in first["loc"][:1]), first["msg"]])[:200]
            raise DataError(f"{origin}: says nothing usable about how files become inputs ({reason}).") from None


def preprocessing_of(dataset: Dataset) -> Preprocessing:
    """As the loader noted it down; for other data sets all that is known are the numbers of inputs and pixels."""
    if dataset.preprocessing is not None:
        return dataset.preprocessing
    return Preprocessing(int(dataset.X_train.shape[1]), dataset.image_shape)
