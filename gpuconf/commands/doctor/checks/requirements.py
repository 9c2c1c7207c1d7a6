"""Whether an installed version satisfies a requirement: PEP 440 and 508, through `packaging`.

A malformed requirement is ignored: better silent than wrong.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as ParsedRequirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_EXTRA = re.compile(r'extra == "([^"]*)"')  # as `packaging` formats a marker


class Requirement(NamedTuple):
    """``name`` in normalized form, its version clauses, and the extra that it belongs to."""

    name: str
    specifier: SpecifierSet
    extra: str | None = None

    @property
    def clauses(self) -> str:
        """The version clauses as text, such as ``<2.0.0,>=1.23.5``."""
        return str(self.specifier)

    def allows(self, version: str) -> bool:
        """Whether ``version`` satisfies every clause; True for a malformed version."""
        try:
            return self.specifier.contains(Version(version), prereleases=True)
        except InvalidVersion:
            return True

    @property
    def least(self) -> str | None:
        """The lowest version that ==, ~= or >= requires."""
        wanted = (one for one in self.specifier if one.operator in ("==", "~=", ">="))
        versions = (one.version.removesuffix(".*") for one in wanted)
        return max(versions, key=Version, default=None)  # the clauses are an unordered set


@cache  # several checks parse the same lines
def parse_requirement(text: str, *, python: tuple[int, int]) -> Requirement | None:
    """Parse a requirement from a METADATA line.

    Returns None if its marker does not apply here, if it has a URL instead of versions, or if it is
    malformed.
    """
    try:
        parsed = ParsedRequirement(text)
    except (InvalidRequirement, RecursionError):  # the latter for deeply nested brackets
        return None
    if parsed.url is not None:
        return None
    for extra in ("", *_EXTRA.findall(str(parsed.marker or ""))):
        if _applies(parsed, extra, python):
            return Requirement(canonicalize_name(parsed.name), parsed.specifier, extra or None)
    return None


def _applies(parsed: ParsedRequirement, extra: str, python: tuple[int, int]) -> bool:
    """Whether the marker applies here; False if it compares incomparable values."""
    here = {"python_version": f"{python[0]}.{python[1]}", "extra": extra}
    try:
        return parsed.marker is None or parsed.marker.evaluate(here)
    except (UndefinedComparison, UndefinedEnvironmentName):
        return False


def release(version: str) -> tuple[int, ...]:
    """The leading numbers: 2.13.0+cpu is (2, 13, 0).  Empty for a malformed version."""
    try:
        return Version(version).release
    except InvalidVersion:
        return ()
