"""The result of a check."""

from __future__ import annotations

import traceback
from typing import Annotated, Literal

from gpuconf.json_shape import FieldRule, FromOne, json_shape
from gpuconf.records import NamedTuple

Status = Literal["ok", "warn", "fail", "skip", "crash"]

# Every warn and fail has a fix.
_NEEDS_FIX = {
    "if": {"properties": {"status": {"enum": ["warn", "fail"]}}},
    "then": {"properties": {"fix": {"type": "string", "minLength": 1}}},
}


class SourcePlace(NamedTuple):
    """Where a finding stands in a script or notebook."""

    file: str
    """The file, as it was named."""
    line: FromOne
    """Its line; in a notebook that of the cell."""
    last_line: FromOne
    """The last line of what stands there."""
    cell: FromOne | None = None
    """The code cell of a notebook; None for a script."""


@json_shape(keywords=_NEEDS_FIX)
class Finding(NamedTuple):
    """One answer of one check."""

    id: Annotated[str, FieldRule(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_-]+)*$")]
    """The check; its first part is a group: driver, cards, leases, packages, environment, host,
    profile, source, live, probe.
    """
    status: Status
    """crash: the check itself broke down, which is a bug in gpuconf."""
    summary: Annotated[str, FieldRule(min_length=1)]
    """One line, without a full stop."""
    detail: tuple[str, ...] = ()
    """Further lines: what was seen, and where it is known from."""
    fix: str | None = None
    """A command to run, or lines to paste; every warn and fail has one."""
    places: tuple[SourcePlace, ...] = ()
    """Where it stands, for a finding in a script; empty for others."""


def crash(name: str, error: Exception) -> Finding:
    """The finding for an error inside the doctor: our fault, not the machine's."""
    where = traceback.extract_tb(error.__traceback__)[-3:]
    lines = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in where)
    return Finding(
        name,
        "crash",
        f"internal error ({type(error).__name__}: {error}); please report it",
        lines,
        fix="gpuconf doctor --json > doctor.json   # attach it to the bug report",
    )
