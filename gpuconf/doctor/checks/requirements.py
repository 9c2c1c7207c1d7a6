"""Does an installed version satisfy a requirement?  As much of PEP 440 and 508 as wheels use.

What is not understood is no requirement: better silent than wrong.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, NamedTuple

_Key = tuple[tuple[int, ...], int]
_NAME = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^]]*\])?\s*\(?([^;)]*)\)?\s*(?:;(.*))?")
_CLAUSE = re.compile(r"(===|~=|==|!=|<=|>=|<|>)\s*([\w.*+!-]+)")
_VERSION = re.compile(r"v?(\d+(?:\.\d+)*)(.*)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w.-]+)["']""")
_MARKER = re.compile(r"""(\w+)\s*(<=|>=|==|!=|<|>)\s*["']([^"']*)["']""")
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Requirement(NamedTuple):
    """``name`` in pip's normal form, the clauses as written, and the extra it belongs to."""

    name: str
    clauses: str
    extra: str | None = None

    def allows(self, version: str) -> bool:
        """Whether ``version`` satisfies every clause that is understood."""
        found = _CLAUSE.findall(self.clauses)
        return all(_satisfies(version, sign, wanted) for sign, wanted in found)

    @property
    def least(self) -> str | None:
        """The lowest version that is asked for, by ==, ~= or >=."""
        found = _CLAUSE.findall(self.clauses)
        return next((wanted for sign, wanted in found if sign in ("==", "~=", ">=")), None)


def parse_requirement(text: str, *, python: tuple[int, int]) -> Requirement | None:
    """The requirement in a line of METADATA; None where it does not apply or is not understood."""
    match = _NAME.fullmatch(text)
    if match is None or match[2].startswith("@"):  # a place, not a version
        return None
    name, clauses, marker = match.groups()
    extra = None
    if marker is not None:
        extras = _EXTRA.findall(marker)
        extra = extras[0] if extras else None
        if not _applies(_EXTRA.sub("", marker), python):
            return None
    return Requirement(re.sub(r"[-_.]+", "-", name).lower(), clauses.strip(), extra)


def _applies(marker: str, python: tuple[int, int]) -> bool:
    """Whether ``marker`` holds on this Linux; what is joined by ``or`` is not understood."""
    if re.search(r"\bor\b", marker):
        return False
    for name, sign, value in _MARKER.findall(marker):
        if name in ("python_version", "python_full_version"):
            if not _OPERATORS[sign](_key(f"{python[0]}.{python[1]}"), _key(value)):
                return False
        elif name in ("sys_platform", "platform_system"):
            if not _OPERATORS[sign]("linux", value.lower()):
                return False
        else:
            return False
    return True


def _satisfies(version: str, sign: str, wanted: str) -> bool:
    if wanted.endswith(".*"):
        prefix = release(wanted[:-2])
        same = release(version)[: len(prefix)] == prefix
        return same if sign == "==" else not same
    if sign == "~=":
        prefix = release(wanted)[:-1]
        return _key(version) >= _key(wanted) and release(version)[: len(prefix)] == prefix
    if sign == "===" or "!" in wanted:
        return True
    return _OPERATORS[sign](_key(version), _key(wanted))


def _key(version: str) -> _Key:
    """What versions are ordered by: the numbers, and a pre-release before its release."""
    numbers = release(version)
    while numbers and numbers[-1] == 0:
        numbers = numbers[:-1]
    match = _VERSION.match(version)
    rest = match[2].partition("+")[0].lstrip(".-_") if match else ""
    return numbers, 0 if rest.startswith(("a", "b", "c", "rc", "dev", "pre")) else 1


def release(version: str) -> tuple[int, ...]:
    """The numbers at the beginning: 2.13.0+cpu is (2, 13, 0)."""
    match = _VERSION.match(version)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
