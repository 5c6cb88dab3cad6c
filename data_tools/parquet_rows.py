"""Parquet files, some rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from data_tools.errors import DataError
from data_tools.float32 import narrow
from data_tools.own_labels import LABEL_NAMES, WEAK_NAME


def names_in_parquet(path: Path) -> tuple[list[str], list[int]]:
    """The names of its columns, and the sizes of its groups of rows."""
    with _parquet(path) as file:
        about = file.metadata
        return list(file.schema_arrow.names), [about.row_group(group).num_rows for group in range(about.num_row_groups)]


def read_row_group(
    path: Path, group: int, inputs: list[str], label: str | None = None
) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any] | None]:
    """The inputs of some rows, and their labels if a column of them is named."""
    with _parquet(path) as file:
        table = file.read_row_group(group, columns=[*inputs, *([label] if label else [])])
    X = np.empty((table.num_rows, len(inputs)))
    for place, name in enumerate(inputs):
        try:
            X[:, place] = table.column(name).to_numpy()
        except (TypeError, ValueError):
            raise DataError(f"{path}: column {name!r} holds something that is not a number; fix it.") from None
    X = narrow(path, X)
    if label is None:
        return X, None
    labels = ["" if value is None else str(value) for value in table.column(label).to_pylist()]
    return X, np.array(labels, dtype=np.str_)


@contextlib.contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    pyarrow = pyarrow_for(path)
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            yield file
    except (OSError, pyarrow.ArrowException) as error:
        raise DataError(f"{path} cannot be read as parquet ({str(error)[:200]}); save it again.") from None


def pyarrow_for(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
    except ImportError:
        raise DataError(f"{path} needs pyarrow, which is not installed: pip install 'nesi[tables]'.") from None
    return pyarrow


def named_label(path: Path, names: list[str], wanted: str | None) -> int | None:
    """Which of the named columns holds the labels: the one asked for, or one that is called like that, or none."""
    if wanted is not None:
        if wanted not in names:
            raise DataError(f"{path} has no column {wanted!r}; its columns are {', '.join(names[:20])}.")
        return names.index(wanted)
    named = [place for place, name in enumerate(names) if name.lower() in (*LABEL_NAMES, WEAK_NAME)]
    if len(named) > 1:
        both = " and ".join(repr(names[place]) for place in named)
        raise DataError(f"{path} has the columns {both}, any of which could be the label; give label_column.")
    return named[0] if named else None
