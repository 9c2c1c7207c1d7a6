"""What a check comes to."""

from __future__ import annotations

import traceback
from typing import Literal, NamedTuple

Status = Literal["ok", "warn", "fail", "skip", "crash"]


class Finding(NamedTuple):
    """One answer of one check.

    ``id`` names the check, such as ``driver.module``.  ``summary`` is one line without a full
    stop; ``detail`` further lines: what was seen, and where it is known from.  ``fix`` is what a
    person can run or paste; every ``warn`` and ``fail`` has one.  ``crash`` is a check that failed
    by itself, which is our fault and not the machine's.
    """

    id: str
    status: Status
    summary: str
    detail: tuple[str, ...] = ()
    fix: str | None = None

    def as_dict(self) -> dict[str, object]:
        """Plain data for ``--json``."""
        return {**self._asdict(), "detail": list(self.detail)}


def crash(name: str, error: Exception) -> Finding:
    """The finding for a part of the doctor that broke down: our fault, not the machine's."""
    where = traceback.extract_tb(error.__traceback__)[-3:]
    lines = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in where)
    return Finding(
        name,
        "crash",
        f"it broke down by itself ({type(error).__name__}: {error}): a bug in gpuconf",
        lines,
        fix="gpuconf doctor --json > doctor.json   # and report a bug with it",
    )
