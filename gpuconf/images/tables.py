"""Lists of images in CSV and Parquet files: a column of paths and, if there is one, of labels."""

from __future__ import annotations

import csv
import os
import re
from typing import Any, NamedTuple

from gpuconf.errors import MissingDependencyError, UsageError

TABLE_EXTENSIONS = (".csv", ".parquet")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DEFAULT_LABEL = "label"


class Table(NamedTuple):
    """Paths as the file has them, and labels; None where it has no such column."""

    paths: list[Any]
    labels: list[Any] | None


def read_table(file: str, *, path_column: str, label_column: str | None) -> Table:
    """Read the columns; a path that is relative is so to the file's own folder."""
    name = _DEFAULT_LABEL if label_column is None else label_column
    is_parquet = file.lower().endswith(".parquet")
    columns = _read_parquet(file, {path_column, name}) if is_parquet else _read_csv(file)
    paths = _column(file, columns, path_column, "path_column")
    labels = None
    if label_column is not None or name in columns:
        labels = _column(file, columns, name, "label_column")
    folder = os.path.dirname(os.path.abspath(file))
    placed = [os.path.join(folder, path) if _is_name(path) else path for path in paths]
    return Table(placed, labels)


def _is_name(path: Any) -> bool:
    """Whether it can be relative; an empty cell is left as it is, to be reported with its row."""
    return isinstance(path, str) and path != "" and "://" not in path


def _column(file: str, columns: dict[str, list[Any]], name: str, option: str) -> list[Any]:
    if name in columns:
        return columns[name]
    found = ", ".join(columns) or "none"
    raise UsageError(
        f"{file} has no column {name!r}; its columns are: {found}",
        hint=f'name it: {option}="{next(iter(columns), name)}"',
    )


def _read_csv(file: str) -> dict[str, list[Any]]:
    """The columns of a CSV file in UTF-8 with a line of names; numbers where all are numbers."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            rows = csv.reader(stream)
            names = [name.strip() for name in next(rows, [])]
            cells = [row for row in rows if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"{file} is no CSV file in UTF-8: {error}", hint=f"iconv -t UTF-8 {file} > new.csv"
        ) from None
    for number, row in enumerate(cells, start=1):
        if len(row) != len(names):
            raise UsageError(
                f"{file}: row {number} has {len(row)} cells, the line of names {len(names)}",
                hint="put a cell that holds a comma in quotation marks",
            )
    return {name: _typed([row[place].strip() for row in cells]) for place, name in enumerate(names)}


def _typed(cells: list[str]) -> list[Any]:
    """All whole numbers, or all numbers, or all text; an empty cell is None."""
    filled = [cell for cell in cells if cell]
    kind: Any = str
    if filled and all(_INTEGER.fullmatch(cell) for cell in filled):
        kind = int
    elif filled and all(_is_number(cell) for cell in filled):
        kind = float
    return [kind(cell) if cell else None for cell in cells]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _read_parquet(file: str, wanted: set[str]) -> dict[str, list[Any]]:
    """The wanted columns; of others only the names, for they may hold gigabytes."""
    try:
        from pyarrow import ArrowInvalid, parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingDependencyError(
            f"{file}: pyarrow is needed to read Parquet and is not installed",
            hint="pip install 'gpuconf[images]'",
        ) from None
    try:
        with parquet.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
            table = opened.read(columns=[name for name in names if name in wanted])
    except ArrowInvalid as error:
        raise UsageError(f"{file} is no Parquet file: {error}", hint=f"file {file}") from None
    return {name: table.column(name).to_pylist() if name in wanted else [] for name in names}
