"""Lists of images in CSV files and in tables: a column of paths and one of labels."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from gpuconf.errors import UsageError
from gpuconf.images.failures import Origin

TABLE_EXTENSIONS = (".csv", ".tsv")
_SEPARATORS = ",;\t"
_MAYBE_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(,[0-9]+)?")
_DEFAULT_LABEL = "label"


class ImageTable(NamedTuple):
    """Paths as in the table, and labels; None without such a column."""

    paths: list[Any]
    labels: list[Any] | None
    origin: Origin


def read_table(file: str, *, path_column: str, label_column: str | None) -> ImageTable:
    """Read the columns of a CSV file; relative paths are relative to the file's folder."""
    names, rows = _read_csv(file)
    origin = Origin(file, [line for line, _ in rows])

    def read(name: str) -> list[Any]:
        cells = [row[names.index(name)].strip() for _, row in rows]
        return cells if name == path_column else _typed(cells, origin)  # a file may be named 001

    table = _table(names, read, origin, path_column, label_column)
    folder = os.path.dirname(os.path.abspath(file))
    placed = [os.path.join(folder, path) if _is_name(path) else path for path in table.paths]
    return table._replace(paths=placed)


def take_table(given: Any, *, path_column: str, label_column: str | None) -> ImageTable | None:
    """Return the columns of a DataFrame or a dict; None for anything else."""
    names = given if isinstance(given, Mapping) else getattr(given, "columns", None)
    if names is None:
        return None
    origin = Origin(f"the {type(given).__name__}")
    return _table(list(names), lambda name: list(given[name]), origin, path_column, label_column)


def _table(
    names: list[Any],
    read: Callable[[Any], list[Any]],
    origin: Origin,
    path_column: str,
    label_column: str | None,
) -> ImageTable:
    """The two columns; ``read`` returns one column by name, since the others may hold gigabytes."""

    def require(name: str, option: str) -> None:
        count, found = names.count(name), ", ".join(map(str, names)) or "none"
        if count != 1:
            number = f"{count} columns" if count else "no column"
            in_file = "" if origin.lines is None else ", or in the file's first line: path,label"
            raise UsageError(
                f"{origin.source} has {number} {name!r}; its columns are: {found}",
                hint=f'name it: {option}="NAME"{in_file}',
            )

    label = _DEFAULT_LABEL if label_column is None else label_column
    require(path_column, "path_column")
    if label_column is None and label not in names:
        return ImageTable(read(path_column), None, origin)
    require(label, "label_column")
    return ImageTable(read(path_column), read(label), origin)


def _is_name(path: Any) -> bool:
    """Whether a cell may be a relative path; an empty one stays empty and is reported by row."""
    return isinstance(path, str) and path != "" and "://" not in path


def _read_csv(file: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """The names in the header line of a file in UTF-8, and each row with its line number."""
    try:
        with open(file, encoding="utf-8-sig", newline="") as stream:
            separator = max(_SEPARATORS, key=stream.readline().count)
            stream.seek(0)
            reader = csv.reader(stream, delimiter=separator)
            names = [name.strip() for name in next(reader, [])]
            rows = list(_with_lines(reader))
    except (UnicodeDecodeError, csv.Error) as error:
        raise UsageError(
            f"{file} is not a UTF-8 CSV file: {error}", hint="save the list as CSV in UTF-8"
        ) from None
    for line, row in rows:
        if len(row) != len(names):
            raise UsageError(
                f"line {line} of {file} has {len(row)} cells, but the header line has {len(names)}",
                hint=f"put a cell that contains {separator!r} in quotation marks",
            )
    return names, rows


def _with_lines(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Each non-empty row of a CSV reader and its first line number; a row may span lines."""
    begin = reader.line_num + 1
    for row in reader:
        if row:
            yield begin, row
        begin = reader.line_num + 1


def _typed(cells: list[str], origin: Origin) -> list[Any]:
    """All integers, or all numbers, or all text; an empty cell is None.

    Raises UsageError if all are numbers such as 0,5, which would be taken for class names.
    """
    if not any("_" in cell for cell in cells):  # Python reads 1_2 as a number
        for kind in (int, float):
            with suppress(ValueError):
                return [kind(cell) if cell else None for cell in cells]
    if all(_MAYBE_DECIMAL_COMMA.fullmatch(cell) for cell in cells if cell):
        first = next(place for place, cell in enumerate(cells) if "," in cell)
        raise UsageError(
            f"{cells[first]!r} is not a number: {origin.named([first])}",
            hint="write a decimal point",
        )
    return [cell or None for cell in cells]
