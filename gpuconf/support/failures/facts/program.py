"""The kind of program that wrote a log, and the settings that it shows; advice depends on both."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from gpuconf.support.failures.facts.card import TABLE_MEMORY
from gpuconf.support.failures.facts.tables import table_of
from gpuconf.support.failures.log.watchers import LogLine

IDLE_GPU = "idle-gpu"
# PyTorch's own message names the setting that it suggests; that does not mean that it is set.
_HINT = re.compile(r"\b[Tt]ry setting \S{0,60}ALLOC_CONF\S{0,60}")
_NEAR = 60

_Patterns = Mapping[str, re.Pattern[str]]


class Signs(NamedTuple):
    """The content of signs.yaml, which describes it."""

    parts: tuple[str, ...]
    phrases: tuple[str, ...]
    anywhere: _Patterns
    nearby: _Patterns


@cache
def known_signs() -> Signs:
    """All signs that a log can show, by name."""
    table = table_of("signs.yaml")

    def patterns(place: str) -> _Patterns:
        return {name: re.compile("|".join(texts)) for name, texts in table[place].items()}

    words = (tuple(table["parts"]), tuple(table["phrases"]))
    return Signs(*words, patterns("anywhere"), patterns("nearby"))


class ProgramReader:
    """Watches a log for clues to the kind of program and its settings."""

    def __init__(self) -> None:
        self.parts: Sequence[str] = known_signs().parts
        self.phrases: Sequence[str] = known_signs().phrases
        self._signs: dict[str, None] = {}
        self._nearby: dict[str, list[int]] = {sign: [] for sign in known_signs().nearby}
        self._saw_full_gpu = False

    def see(self, line: LogLine) -> None:
        """Note the clues in a line."""
        text = _HINT.sub("", line.text[:2000])
        for sign, pattern in known_signs().anywhere.items():
            if sign not in self._signs and pattern.search(text):
                self._signs[sign] = None
        for used, total in TABLE_MEMORY.findall(text):
            if int(used) > 0.75 * int(total):
                self._saw_full_gpu = True
            elif self._saw_full_gpu and int(used) < 0.05 * int(total):
                self._signs[IDLE_GPU] = None
        for sign, pattern in known_signs().nearby.items():
            if pattern.search(text):
                self._nearby[sign].append(line.number)

    def signs(self, failed_at: Sequence[int]) -> tuple[str, ...]:
        """The clues seen; of those in frames, only the ones near one of these lines."""
        near = [
            sign
            for sign, seen in self._nearby.items()
            if any(abs(one - other) <= _NEAR for one in seen for other in failed_at)
        ]
        return (*self._signs, *near)
