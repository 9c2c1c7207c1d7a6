"""CHANGELOG.md, as keepachangelog.com has it: a section for each version, the newest first."""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple

# Those of keepachangelog.com, and what a release cannot do.
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits")
_HEADING = re.compile(
    r"## (?P<name>Unreleased|\d+\.\d+\.\d+(?:rc\d+)?)(?: - (?P<date>\d{4}-\d\d-\d\d))?"
)


class Section(NamedTuple):
    """What one version has changed: its name, its day, and the text below its heading."""

    name: str
    date: date | None
    text: str

    @property
    def kinds(self) -> list[str]:
        """The headings in it, such as Added."""
        lines = self.text.splitlines()
        return [line.removeprefix("### ") for line in lines if line.startswith("### ")]


def sections(text: str) -> list[Section]:
    """The sections in the order in which they stand; ValueError for a heading that is none."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return [_section(*part.split("\n", 1)) for part in parts]


def _section(heading: str, text: str) -> Section:
    found = _HEADING.fullmatch(heading)
    if found is None:
        raise ValueError(f"neither Unreleased nor a version with its day: {heading!r}")
    day = date.fromisoformat(found["date"]) if found["date"] else None
    return Section(found["name"], day, text.strip())
