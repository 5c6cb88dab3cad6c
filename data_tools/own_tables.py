"""Your own tables: .csv, .tsv, Parquet and Arrow files with one point per row."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from data_tools.dataset import Dataset
from data_tools.errors import DataError, counted
from data_tools.own_labels import LABEL_NAMES, WEAK_NAME, OwnOptions, OwnPart, assemble, label_word
from data_tools.parquet_rows import pyarrow_for
from data_tools.preprocessing import Preprocessing

_ID_NAMES = ("id", "index", "uuid", "guid", "key", "rowid", "row_id", "unnamed: 0")
#: A column is named by its header, or counted from 0.
ColumnName = str | int


class Table(NamedTuple):
    """Columns of text or numbers, all of the same length; None as header if the columns have no names."""

    header: list[str] | None
    columns: list[Sequence[Any]]

    @property
    def n_rows(self) -> int:
        return len(self.columns[0])

    def name(self, column: int) -> str:
        return f"column {self.header[column]!r}" if self.header else f"column {column}"


def load_table(
    path: Path,
    test: str | None = None,
    label_column: ColumnName | None = None,
    ignore_columns: list[str] | list[int] | None = None,
    test_fraction: float = 0.2,
    seed: int = 0,
    drop_empty: bool = False,
    classes: list[str] | None = None,
    image_shape: tuple[int, int] | None = None,
    signed: str = "auto",
) -> Dataset:
    """One point per row. The label is the column named label, class or target, else y, else the last one.

    An empty label means unlabeled. `test` names a second file in the same format for the test set. Columns in
    `ignore_columns` are no inputs; the first of them gives the points their names.
    """
    table = read_table(path)
    label = _label_index(path, table, label_column, classes)
    ignored = [_column_index(path, table, column) for column in _as_list(path, ignore_columns)]
    if label is not None and label in ignored:
        raise DataError(f"{path}: {table.name(label)} holds the labels, so it can't be ignored; correct one of both.")
    inputs = [column for column in range(len(table.columns)) if column != label and column not in ignored]
    _warn_of_ids(path, table, inputs)
    preprocessing = Preprocessing(
        len(inputs),
        columns=tuple(table.header[column] for column in inputs) if table.header else None,
        label_column=table.header[label] if table.header and label is not None else label,
        ignored_columns=tuple(table.header[column] if table.header else column for column in ignored),
    )
    labels = [""] * table.n_rows if label is None else list(table.columns[label])
    part = OwnPart(numbers(path, table, inputs), labels, _row_names(table, ignored))
    test_part = None
    if test:
        test_path = beside(path, test)
        test_table = read_table(test_path)
        if table.header != test_table.header:
            raise DataError(
                f"{test_path} has the columns {_shown(test_table.header)}, but {path} has {_shown(table.header)}; "
                "give both the same."
            )
        X_test = numbers(test_path, test_table, new_inputs(test_path, test_table, preprocessing))
        if label is None:
            raise DataError(f"{path} has no column of labels, so {test_path} can't be used for testing; leave it out.")
        test_part = OwnPart(X_test, list(test_table.columns[label]))
    options = OwnOptions(test_fraction, seed, drop_empty, classes, signed)
    return assemble(path, part, test_part, options, image_shape, preprocessing=preprocessing)


def new_inputs(path: Path, table: Table, preprocessing: Preprocessing) -> list[int]:
    """Which columns of a further table are the inputs, in the order of the training table."""
    if preprocessing.columns is not None and table.header is not None:
        missing = [name for name in preprocessing.columns if name not in table.header]
        if missing:
            raise DataError(
                f"{path} has no column {missing[0]!r} ({len(missing)} missing), which the network was trained with; "
                f"its columns are {', '.join(table.header[:20])}."
            )
        return [table.header.index(name) for name in preprocessing.columns]
    n_columns, left_out = len(table.columns), {preprocessing.label_column, *preprocessing.ignored_columns}
    if preprocessing.columns is None and n_columns == preprocessing.n_inputs + len(left_out - {None}):
        return [column for column in range(n_columns) if column not in left_out]
    if n_columns == preprocessing.n_inputs:
        return list(range(n_columns))
    raise DataError(
        f"{path} has {counted(n_columns, 'column')}, but the network was trained with {preprocessing.n_inputs} inputs; "
        "give the same columns."
    )


def new_row_names(table: Table, preprocessing: Preprocessing) -> list[str]:
    known = [name for name in preprocessing.ignored_columns if table.header and name in table.header]
    return _row_names(table, [table.header.index(str(name)) for name in known] if table.header else [])


def _row_names(table: Table, ignored: list[int]) -> list[str]:
    return [str(value) for value in (table.columns[ignored[0]] if ignored else range(table.n_rows))]


# ---- reading -------------------------------------------------------------------------------------------------------


def read_table(path: Path) -> Table:
    table = _read_arrow(path) if path.suffix.lower() in ARROW_ENDINGS else _read_text(path)
    if not table.columns or not table.n_rows:
        raise DataError(f"{path} is empty; expected one point per line.")
    if table.header and len(set(table.header)) < len(table.header):
        twice = next(name for name in table.header if table.header.count(name) > 1)
        raise DataError(f"{path} has two columns named {twice!r}; give each column a name of its own.")
    return table


ARROW_ENDINGS = (".parquet", ".feather", ".arrow")


def _read_text(path: Path) -> Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            separator = "\t" if path.suffix.lower() == ".tsv" else ","
            rows = [row for row in csv.reader(stream, delimiter=separator) if any(field.strip() for field in row)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{path} cannot be read as .csv ({error}); save it as plain comma-separated text.") from error
    if not rows:
        raise DataError(f"{path} is empty; expected one point per line.")
    header = [name.strip() for name in rows[0]] if _are_names(rows[0], rows[1:]) else None
    lines = rows[1:] if header else rows
    for number, row in enumerate(lines, start=1):
        if len(row) != len(rows[0]):
            raise DataError(
                f"{path}: point {number} has {counted(len(row), 'column')}, expected {len(rows[0])} as in the first "
                "line; fix it."
            )
    columns: list[Sequence[Any]] = [[field.strip() for field in column] for column in zip(*lines, strict=True)]
    return Table(header, columns or [[] for _ in rows[0]])


def _are_names(first: list[str], others: list[list[str]]) -> bool:
    """Whether the first line names the columns. Pixels may be called by numbers, beside a column called label."""
    if not any(_is_number(field) for field in first[:-1]):
        return True
    named = [place for place, field in enumerate(first) if field.strip().lower() in LABEL_NAMES]
    return any(all(row[place : place + 1] != first[place : place + 1] for row in others) for place in named)


def _read_arrow(path: Path) -> Table:
    pyarrow = pyarrow_for(path)
    try:
        if path.suffix.lower() == ".parquet":
            table = pyarrow.parquet.read_table(path)
        else:
            table = pyarrow.feather.read_table(path)
        table.validate(full=True)  # damaged text would end in an error that says nothing
        return Table([str(name) for name in table.column_names], [column.to_pylist() for column in table.columns])
    except (OSError, pyarrow.ArrowException, ValueError) as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise DataError(f"{path} cannot be read as {path.suffix[1:]} ({reason}); save it again.") from None


def numbers(path: Path, table: Table, inputs: list[int]) -> npt.NDArray[np.float64]:
    X = np.empty((table.n_rows, len(inputs)))
    for place, column in enumerate(inputs):
        try:
            X[:, place] = np.array(table.columns[column], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            row, value = next((r, v) for r, v in enumerate(table.columns[column]) if not _is_number(v))
            raise DataError(
                f"{path}: point {row + 1} holds something that is not a number in {table.name(column)} "
                f"({str(value)[:40]!r}); fix it, or leave the column out with ignore_columns."
            ) from None
    return X


def _is_number(field: Any) -> bool:
    try:
        float(field)
    except (TypeError, ValueError):
        return False
    return True


# ---- columns -------------------------------------------------------------------------------------------------------


def _label_index(path: Path, table: Table, wanted: ColumnName | None, classes: list[str] | None = None) -> int | None:
    """None: no column holds labels, which may be if the `classes` are named."""
    n_columns = len(table.columns)
    if n_columns < 2 and classes is None:
        raise DataError(f"{path} has one column, expected inputs and a label separated by commas.")
    if wanted is not None:
        return _column_index(path, table, wanted)
    names = table.header or []
    named = [i for i, name in enumerate(names) if name.lower() in LABEL_NAMES]
    named = named or [i for i, name in enumerate(names) if name.lower() == WEAK_NAME]
    if len(named) > 1:
        both = " and ".join(f"{names[i]!r}" for i in named)
        raise DataError(f"{path} has the columns {both}, any of which could be the label; give label_column.")
    if named and names[named[0]].lower() == WEAK_NAME and named[0] not in (0, n_columns - 1):
        raise DataError(
            f"{path}: the label could be the column {names[named[0]]!r} or the last one, {names[-1]!r}; "
            "give label_column."
        )
    if named:
        return named[0]
    if classes is not None:
        known = {None, *(label_word(name) for name in classes)}
        return n_columns - 1 if {label_word(value) for value in table.columns[-1]} <= known else None
    return n_columns - 1


def _column_index(path: Path, table: Table, wanted: ColumnName) -> int:
    n_columns = len(table.columns)
    if isinstance(wanted, int) and not isinstance(wanted, bool) and -n_columns <= wanted < n_columns:
        return wanted % n_columns
    if table.header is None or wanted not in table.header:
        known = ", ".join(table.header[:20]) if table.header else f"unnamed: count them from 0 to {n_columns - 1}"
        raise DataError(f"{path} has no column {wanted!r}; its columns are {known}.")
    return table.header.index(str(wanted))


def _as_list(path: Path, columns: Any) -> list[ColumnName]:
    if columns is None or isinstance(columns, list):
        return columns or []
    raise DataError(f"{path}: ignore_columns is {columns!r}, expected a list of columns like [id, name]; correct it.")


def _warn_of_ids(path: Path, table: Table, inputs: list[int]) -> None:
    """A column that counts the points says nothing about their class, but a lot about which point is which."""
    for column in inputs:
        name = table.header[column].lower() if table.header else None
        if (name in _ID_NAMES or (name or "").endswith("_id") or name == "") or _counts_rows(table.columns[column]):
            shown = table.header[column] if table.header else column
            warnings.warn(
                f"{path}: {table.name(column)} looks like an id and is used as an input; leave it out with "
                f"ignore_columns: [{shown}]",
                stacklevel=4,
            )


def _counts_rows(values: Sequence[Any]) -> bool:
    """0, 1, 2, ... or 1, 2, 3, ..."""
    if len(values) < 10:
        return False
    try:
        found = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return bool(found[0] in (0, 1) and (np.diff(found) == 1).all())


def _shown(header: list[str] | None) -> str:
    names = ", ".join(header or [])
    return names[:200] + " ..." if len(names) > 200 else names or "without names"


def beside(path: Path, other: str) -> Path:
    """A second file, by its own path or by its name next to the first."""
    return Path(other) if Path(other).is_file() else path.parent / other
