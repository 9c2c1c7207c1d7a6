"""No regular expression of `gpuconf explain` can be made to search a line for minutes.

A line that is looked at has at most 16 KiB.  An upper bound on the steps of a search, from the
pattern alone, holds every pattern to that.
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import gpuconf.commands.explain
import gpuconf.support.failures
from gpuconf.support.failures.facts.details import detail_patterns
from gpuconf.support.failures.facts.program import known_signs
from gpuconf.support.failures.rules import all_rules
from tests.support.failures.search_cost import LINE, AnyPattern, most_steps

ROOMS = ("gpuconf.support.failures", "gpuconf.commands.explain")
# No more than each place in a line with each other: two seconds at the worst.
MOST_STEPS = LINE * LINE


def modules() -> Iterator[ModuleType]:
    """gpuconf.support.failures, gpuconf.commands.explain and all below them."""
    for room in (gpuconf.support.failures, gpuconf.commands.explain):
        yield room
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            yield importlib.import_module(found.name)


def patterns_in(value: object) -> Iterator[AnyPattern]:
    """The compiled patterns in a value: in collections, NamedTuples and classes, too."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, (tuple, list, set, frozenset)):
        for each in value:
            yield from patterns_in(each)
    elif isinstance(value, dict):
        yield from patterns_in([*value.keys(), *value.values()])
    elif isinstance(value, type) and value.__module__.startswith(ROOMS):
        yield from patterns_in(list(vars(value).values()))


def patterns_written_in(source: str) -> Iterator[AnyPattern]:
    """The patterns that stand as literals in calls such as ``re.sub("a+", …)``."""
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "re"
            and node.args
            and isinstance(node.args[0], ast.Constant)
            and isinstance(node.args[0].value, str)
        ):
            yield re.compile(node.args[0].value)


def all_patterns() -> dict[AnyPattern, str]:
    """Every pattern with where it stands."""
    found: dict[AnyPattern, str] = {}
    for rule in all_rules():
        for pattern in patterns_in(rule):
            found.setdefault(pattern, f"rule {rule.id}")
    for table in (known_signs(), detail_patterns()):
        for pattern in patterns_in(table):
            found.setdefault(pattern, type(table).__name__)
    for module in modules():
        source = Path(module.__file__ or "").read_text(encoding="utf-8")
        for name, value in vars(module).items():
            for pattern in patterns_in(value):
                found.setdefault(pattern, f"{module.__name__}.{name}")
        for pattern in patterns_written_in(source):
            found.setdefault(pattern, f"{module.__name__}, inline")
    return found


PATTERNS = all_patterns()


def test_collection_finds_patterns_of_every_kind() -> None:
    """Patterns of modules, of tuples in them, of rules and within functions are all held."""
    places = set(PATTERNS.values())
    assert len(PATTERNS) > 80
    assert {
        "gpuconf.support.failures.outcome._EXCEPTION",
        "gpuconf.support.failures.facts.tensor._NODES",
        "DetailPatterns",
        "Signs",
        "gpuconf.support.failures.log.encodings._CODES",
        "rule killed",
        "gpuconf.support.failures.verdict, inline",
    } <= places


def test_no_search_takes_many_steps() -> None:
    """The bound on a pattern's steps in a line of 16 KiB is below that line's square.

    Where this fails, give the repeats an upper end, such as ``\\d{1,19}`` or ``.{0,200}``.
    """
    slow = [place for pattern, place in PATTERNS.items() if most_steps(pattern) > MOST_STEPS]
    assert slow == []


SLOW = (
    r"(a+)+$", r"(\w+\s*)*x", r"(?:a|a)*b", r"(a|aa)+$", r"x*x*y", r"\d+ of", r".*a.*b",
    r"(?:\w{1,9}){1,9}x", r"(?:.*,){3}x", r"a.{0,300}b.{0,300}c.{0,300}d", r"\s+$", r"(a?)+b",
    r"^.*.*$", r"(?i)a*A*b",
)  # fmt: skip
QUICK = (
    r"a\d{1,19} of", r"^\d+ .*", r"\bepoch\b", r"x.*", r"(?:[a-z]{1,9}\.){0,9}X", r"^a+b+c",
)  # fmt: skip


def test_the_bound_can_fail() -> None:
    """It is above the limit for patterns known to be slow, and below for those of one pass."""
    assert [each for each in SLOW if most_steps(re.compile(each)) <= MOST_STEPS] == []
    assert [each for each in QUICK if most_steps(re.compile(each)) > MOST_STEPS] == []
