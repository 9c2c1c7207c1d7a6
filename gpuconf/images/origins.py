"""Where a list of images was written down, so that an error names the entry that is at fault."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.images.failures import printable

# Entries that are named in an error, of all those at fault.
_NAMED = 5


class Origin(NamedTuple):
    """The file or table that has the entries; None for a list in the caller's code.

    ``lines`` are those of a text file, from 1; rows of other tables and images count from 0.
    """

    source: str | None = None
    lines: Sequence[int] | None = None

    def named(self, places: Sequence[int], paths: Sequence[bytes] = ()) -> str:
        """``line 3 (cat/7.jpg) and 12 more of list.csv``, ``image 2 (7.jpg), counted from 0``."""
        told = ", ".join(self._one(place, paths) for place in places[:_NAMED])
        more = f" and {len(places) - _NAMED} more" if len(places) > _NAMED else ""
        of = "" if self.source is None else f" of {self.source}"
        return f"{told}{more}{of}{', counted from 0' if self.lines is None else ''}"

    def _one(self, place: int, paths: Sequence[bytes]) -> str:
        path = f" ({printable(os.fsdecode(paths[place]))})" if paths else ""
        if self.lines is not None:
            return f"line {self.lines[place]}{path}"
        return f"{'image' if self.source is None else 'row'} {place}{path}"
