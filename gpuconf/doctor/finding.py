"""What a check comes to."""

from __future__ import annotations

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
