"""Lists of images in CSV and Parquet files and in tables: a column of paths and one of labels."""

from __future__ import annotations

import codecs
import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple, TextIO

from gpuconf.errors import MissingDependencyError, UsageError
from gpuconf.images.failures import Origin
from gpuconf.images.folders import EXTENSIONS

TABLE_EXTENSIONS = (".csv", ".tsv", ".parquet")
_SEPARATORS = {",": "a comma", ";": "a semicolon", "\t": "a tab"}
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAYBE_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(,[0-9]+)?")
_DEFAULT_LABEL = "label"


class ImageTable(NamedTuple):
    """Paths as in the table, and labels; None without such a column."""

    paths: list[Any]
    labels: list[Any] | None
    origin: Origin


class _Columns(NamedTuple):
    """The names of the columns, and a function that reads one: the others may hold gigabytes."""

    origin: Origin
    names: list[Any]
    read: Callable[[Any], list[Any]]


def read_table(file: str, *, path_column: str, label_column: str | None) -> ImageTable:
    """Read the columns of a file; relative paths are relative to the file's folder."""
    is_parquet = file.lower().endswith(".parquet")
    columns = _parquet_columns(file) if is_parquet else _csv_columns(file, path_column)
    table = _table(columns, path_column, label_column)
    folder = os.path.dirname(os.path.abspath(file))
    placed = [os.path.join(folder, path) if _is_name(path) else path for path in table.paths]
    return table._replace(paths=placed)


def take_table(given: Any, *, path_column: str, label_column: str | None) -> ImageTable | None:
    """Return the columns of a table in memory, of any library or a dict; None for anything else."""
    names = list(given) if isinstance(given, Mapping) else getattr(given, "columns", None)
    if names is None:
        return None
    # Where ``columns`` returns the cells, as in pyarrow, this attribute has the names.
    named = getattr(given, "column_names", None)
    names = named if isinstance(named, list) else list(names)
    origin = Origin(f"the {type(given).__name__}")

    def read(name: Any) -> list[Any]:
        cells = given[name]
        return cells.to_pylist() if hasattr(cells, "to_pylist") else list(cells)

    return _table(_Columns(origin, names, read), path_column, label_column)


def _table(columns: _Columns, path_column: str, label_column: str | None) -> ImageTable:
    label = _DEFAULT_LABEL if label_column is None else label_column
    _require(columns, path_column, "path_column", label)
    paths, labels = columns.read(path_column), None
    if label_column is not None or label in columns.names:
        _require(columns, label, "label_column", path_column)
        labels = columns.read(label)
    return ImageTable(paths, labels, columns.origin)


def _is_name(path: Any) -> bool:
    """Whether it can be a relative path; an empty cell stays empty and is reported with its row."""
    return isinstance(path, str) and path != "" and "://" not in path


def _require(columns: _Columns, name: str, option: str, other: str) -> None:
    """Check that exactly one column has this name, or raise a UsageError with all names."""
    source, count = columns.origin.source, columns.names.count(name)
    if count > 1:
        raise UsageError(
            f"{source} has {count} columns {name!r}", hint="give each column another name"
        )
    if not count:
        found = ", ".join(map(str, columns.names)) or "none"
        raise UsageError(
            f"{source} has no column {name!r}; its columns are: {found}",
            hint=_hint(columns, name, option, other),
        )


def _hint(columns: _Columns, name: str, option: str, other: str) -> str:
    """The column that may be meant, or the problem with the first line of a text file."""
    texts = [str(each) for each in columns.names if each != other]
    if option == "path_column":
        texts = [each for each in texts if _has_pictures(columns, each)] or texts
    nearest = (get_close_matches(str(name), texts, 1, cutoff=0) or [name])[0]
    if columns.origin.lines is not None:
        if not texts or any(os.fsencode(text).lower().endswith(EXTENSIONS) for text in texts):
            return f"write the columns' names into the first line: {name},{_DEFAULT_LABEL}"
        if len(texts) == 1 and re.search(r"[^\w.-]", nearest):
            return (
                f"separate the columns by commas, semicolons or tabs; or, if it is one column: "
                f'{option}="{nearest}"'
            )
    return f'name it: {option}="{nearest}"'


def _has_pictures(columns: _Columns, name: str) -> bool:
    """Whether the column's first cell is the name of an image."""
    first = next(iter(columns.read(name)[:1]), None) if name in columns.names else None
    return isinstance(first, str) and os.fsencode(first).lower().endswith(EXTENSIONS)


def _csv_columns(file: str, path_column: str) -> _Columns:
    """The columns of a CSV file in UTF-8 with a header line."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            separator = _separator(stream, path_column)
            rows = csv.reader(stream, delimiter=separator)
            names = [name.strip() for name in next(rows, [])]
            placed = list(_with_lines(rows))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"{file} is not a CSV file in UTF-8: {error}",
            hint=f"iconv -f {_encoding_of(file)} -t UTF-8 {file} > new.csv",
        ) from None
    for line, row in placed:
        if len(row) != len(names):
            raise UsageError(
                f"line {line} of {file} has {len(row)} cells, the line of names {len(names)}",
                hint=f"put a cell that holds {_SEPARATORS[separator]} in quotation marks",
            )
    origin = Origin(file, [line for line, _ in placed])

    def read(name: str) -> list[Any]:
        place = names.index(name)
        column: list[Any] = [row[place].strip() for _, row in placed]
        if name == path_column:  # a file may be named 001
            return column
        column = _typed(column)
        if separator == ";":
            _refuse_decimal_commas(column, origin)
        return column

    return _Columns(origin, names, read)


def _with_lines(rows: Any) -> Iterator[tuple[int, list[str]]]:
    """Each non-empty row of a CSV reader and its first line number; a row may span lines."""
    begin = rows.line_num + 1
    for row in rows:
        if row:
            yield begin, row
        begin = rows.line_num + 1


def _encoding_of(file: str) -> str:
    """The likely encoding of a file that is not UTF-8: one that Excel writes."""
    with open(file, "rb") as stream:
        begins = stream.read(2)
    return "UTF-16" if begins in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "CP1252"


def _separator(stream: TextIO, path_column: str) -> str:
    """The separator that finds the column of paths in the header line, or else the most names."""
    found = {}
    for separator in _SEPARATORS:
        stream.seek(0)
        found[separator] = [
            name.strip() for name in next(csv.reader(stream, delimiter=separator), [])
        ]
    stream.seek(0)
    return max(_SEPARATORS, key=lambda each: (path_column in found[each], len(found[each])))


def _typed(cells: list[str]) -> list[Any]:
    """All integers, or all numbers, or all text; an empty cell is None."""
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


def _refuse_decimal_commas(cells: list[Any], origin: Origin) -> None:
    """Reject numbers such as 0,5, which would be taken for class names."""
    text = [place for place, cell in enumerate(cells) if isinstance(cell, str)]
    if text and all(_MAYBE_DECIMAL_COMMA.fullmatch(cells[place]) for place in text):
        first = next(place for place in text if "," in cells[place])
        raise UsageError(
            f"{cells[first]!r} is not a number: {origin.named([first])}",
            hint=f"use a decimal point: sed 's/,/./g' {origin.source} > new.csv",
        )


def _parquet_columns(file: str) -> _Columns:
    try:
        from pyarrow import ArrowInvalid, parquet  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise MissingDependencyError(
            f"{file}: pyarrow is needed to read Parquet and is not installed",
            hint="pip install 'gpuconf[images]'",
        ) from None

    def read(name: str) -> list[Any]:
        with parquet.ParquetFile(file) as opened:
            cells: list[Any] = opened.read(columns=[name]).column(name).to_pylist()
            return cells

    try:
        with parquet.ParquetFile(file) as opened:
            names = opened.schema_arrow.names
    except ArrowInvalid as error:
        raise UsageError(f"{file} is not a Parquet file: {error}", hint=f"file {file}") from None
    return _Columns(Origin(file), names, read)
