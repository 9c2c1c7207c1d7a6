"""Does an installed version satisfy a requirement?  PEP 440 and 508 as `packaging` reads them.

What is malformed counts as no requirement: better silent than wrong.
"""

from __future__ import annotations

import re
from functools import cache

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as ParsedRequirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from gpuconf.records import NamedTuple

_EXTRA = re.compile(r'extra == "([^"]*)"')  # as `packaging` writes a marker


class Requirement(NamedTuple):
    """``name`` in pip's normal form, its versions, and the extra that it belongs to."""

    name: str
    specifier: SpecifierSet
    extra: str | None = None

    @property
    def clauses(self) -> str:
        """The versions as text, such as ``<2.0.0,>=1.23.5``."""
        return str(self.specifier)

    def allows(self, version: str) -> bool:
        """Whether ``version`` satisfies every clause; True for a version that is malformed."""
        try:
            return self.specifier.contains(Version(version), prereleases=True)
        except InvalidVersion:
            return True

    @property
    def least(self) -> str | None:
        """The lowest version that is asked for, by ==, ~= or >=."""
        wanted = (one for one in self.specifier if one.operator in ("==", "~=", ">="))
        versions = (one.version.removesuffix(".*") for one in wanted)
        return max(versions, key=Version, default=None)  # a set of clauses has no order


@cache  # several checks look at the same lines
def parse_requirement(text: str, *, python: tuple[int, int]) -> Requirement | None:
    """The requirement in a line of METADATA.

    None where its marker does not hold here, where it names a URL instead of versions, and
    where it is malformed.
    """
    try:
        parsed = ParsedRequirement(text)
    except (InvalidRequirement, RecursionError):  # the latter for a nest of brackets
        return None
    if parsed.url is not None:
        return None
    for extra in ("", *_EXTRA.findall(str(parsed.marker or ""))):
        if _applies(parsed, extra, python):
            return Requirement(canonicalize_name(parsed.name), parsed.specifier, extra or None)
    return None


def _applies(parsed: ParsedRequirement, extra: str, python: tuple[int, int]) -> bool:
    """Whether the marker holds here; not one that compares what cannot be compared."""
    here = {"python_version": f"{python[0]}.{python[1]}", "extra": extra}
    try:
        return parsed.marker is None or parsed.marker.evaluate(here)
    except (UndefinedComparison, UndefinedEnvironmentName):
        return False


def release(version: str) -> tuple[int, ...]:
    """The numbers at the beginning: 2.13.0+cpu is (2, 13, 0).  Empty for a malformed version."""
    try:
        return Version(version).release
    except InvalidVersion:
        return ()
