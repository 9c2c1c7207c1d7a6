"""The result of a check."""

from __future__ import annotations

import traceback
from typing import Annotated, Literal, NamedTuple

from gpuconf.basics.json_shape import FieldRule, FromOne, json_shape

Status = Literal["ok", "warn", "fail", "skip", "crash"]

# These need a fix.
_NEEDS_FIX = {
    "if": {"properties": {"status": {"enum": ["warn", "fail"]}}},
    "then": {"properties": {"fix": {"type": "string", "minLength": 1}}},
}


class SourcePlace(NamedTuple):
    """The location of a finding in a script or notebook."""

    file: str
    """The file, as it was given."""
    line: FromOne
    """The line; in a notebook, counted within the cell."""
    last_line: FromOne
    """The last line of the code in question."""
    cell: FromOne | None = None
    """The notebook's code cell; None for a script."""


@json_shape(keywords=_NEEDS_FIX)
class Finding(NamedTuple):
    """A single result of a check."""

    id: Annotated[str, FieldRule(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_-]+)*$")]
    """The check's id; its first part is a group: driver, cards, leases, packages, environment,
    host, profile, source, live; facts if what it would have looked at could not be read.
    """
    status: Status
    """crash: the check itself failed, which is a bug in gpuconf."""
    summary: Annotated[str, FieldRule(min_length=1)]
    """One line, without a full stop."""
    detail: tuple[str, ...] = ()
    """Further lines: what was seen, and the source."""
    fix: str | None = None
    """A command to run, or lines to paste; every warn and fail has one."""
    places: tuple[SourcePlace, ...] = ()
    """The locations of a finding in scripts; empty for others."""


def crash(name: str, error: Exception) -> Finding:
    """The finding for an error in the doctor itself: gpuconf's fault, not the machine's."""
    where = traceback.extract_tb(error.__traceback__)[-3:]
    lines = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in where)
    return Finding(
        name,
        "crash",
        f"internal error ({type(error).__name__}: {error}); please report it",
        lines,
        fix="gpuconf doctor --json > doctor.json   # attach it to the bug report",
    )
