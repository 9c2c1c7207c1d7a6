"""Regular expressions whose alternatives tell one fact in several forms."""

from __future__ import annotations

import re


def first_group(pattern: re.Pattern[str], text: str) -> str | None:
    """The first group that matched, of the first match in ``text``; None without a match."""
    found = pattern.search(text)
    return None if found is None else next((group for group in found.groups() if group), None)
