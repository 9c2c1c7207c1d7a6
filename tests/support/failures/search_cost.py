"""An upper bound on the steps of a search, from the regular expression alone."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

# The longest piece of a line that is searched.
LINE = 16 * 1024
AnyPattern = re.Pattern[str] | re.Pattern[bytes]
Item = tuple[Any, Any]
parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

EVERY = frozenset(map(chr, range(256))) | {"\u4e00"}
_CATEGORIES: dict[str, Callable[[str], bool]] = {
    "digit": str.isdigit,
    "space": str.isspace,
    "word": lambda c: c.isalnum() or c == "_",
}
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")


def source_of(pattern: AnyPattern) -> str:
    """A pattern as text."""
    return (
        pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode("latin-1")
    )


def parsed(pattern: AnyPattern) -> list[Item]:
    """A pattern as the parts that `re` makes of it."""
    return list(parser.parse(source_of(pattern), pattern.flags & ~re.UNICODE))


def most_steps(pattern: AnyPattern) -> float:
    """An upper bound on the steps of one search in a line, wherever it may start.

    A repeat can end at as many places as it may be long, unless nothing that it takes can begin
    what must follow (then only its very end will do) or nothing need follow (then the first end
    will do).  All that stands behind it may be tried at each of its ends, so the ends of the parts
    of a sequence multiply.  A repeat of a part that has several ends itself is nearly without
    bound, as in ``(a+)+$``.
    """
    items = parsed(pattern)
    cost = Cost(fold=bool(pattern.flags & re.IGNORECASE))
    return LINE + _searched(items, cost) + cost.last_steps


def _searched(items: Sequence[Item], cost: Cost) -> float:
    if len(items) == 1 and str(items[0][0]) == "BRANCH":
        return sum(_searched(list(each), cost) for each in items[0][1][1])
    return LINE * _share_of_places(items) * (1 + cost.of(items, None)[1])


def _share_of_places(items: Sequence[Item]) -> float:
    """At which share of a line's places a pattern can have got past the letters it begins with.

    A word that does not begin as it ends has room for one occurrence in each of its lengths.
    """
    word = ""
    for op, value in items:
        if str(op) == "LITERAL":
            word += chr(value).lower()
            continue
        if not word and str(op) == "BRANCH":
            return min(1, sum(_share_of_places(list(each)) for each in value[1]))
        if not word and str(op) == "SUBPATTERN":
            return _share_of_places(list(value[3]))
        if not word and str(op) == "AT" and "BEGINNING" in str(value):
            return 1 / LINE
        if word or str(op) != "AT":
            break
    overlaps = any(word.startswith(word[n:]) for n in range(1, len(word)))
    return 1 if overlaps or not word else 1 / len(word)


class Cost:
    """Counts ends and steps.  What may follow is a set of characters; None: nothing need."""

    def __init__(self, *, fold: bool) -> None:
        self._fold = fold
        self.last_steps = 0.0

    def of(self, items: Sequence[Item], follow: frozenset[str] | None) -> tuple[float, float]:
        """At how many places a sequence may end, and the steps until all were tried."""
        ends, steps = 1.0, 0.0
        for place, item in enumerate(items):
            after = self.after(items[place + 1 :], follow)
            item_ends, item_steps = self._of_item(*item, after)
            # What may be empty, with nothing behind it, ends the search when it is reached.
            if after is None and self._starts([item])[1]:
                self.last_steps += item_steps
            else:
                steps += ends * item_steps
            ends *= item_ends
        return ends, steps

    def after(self, items: Sequence[Item], follow: frozenset[str] | None) -> frozenset[str] | None:
        """What can stand where ``items`` and then ``follow`` are wanted."""
        chars, may_be_empty, checks = self._starts(items)
        if not may_be_empty:
            return chars
        if follow is None:
            return EVERY if checks else None
        return chars | follow

    def _of_item(self, op: Any, value: Any, follow: frozenset[str] | None) -> tuple[float, float]:
        name = str(op)
        if self.chars(name, value) is not None:
            return 1, 1
        if name in REPEATS:
            least, most, body = value
            return self._of_repeat(int(least), min(int(most), LINE), body, follow)
        if name == "SUBPATTERN":
            return self.of(value[3], follow)
        if name == "BRANCH":
            costs = [self.of(each, follow) for each in value[1]]
            starts = [self._starts(each) for each in value[1]]
            together = [
                sum(ends for (ends, _), (chars, empty, _) in zip(costs, starts, strict=True)
                    if empty or char in chars)
                for char in EVERY
            ]  # fmt: skip
            return 1 if follow is None else max(together), sum(1 + steps for _, steps in costs)
        if name in ("ASSERT", "ASSERT_NOT"):
            return 1, self.of(value[1], EVERY)[1]
        if name == "AT":
            return 1, 1
        raise NotImplementedError(f"the bound does not know {name}")

    def _of_repeat(
        self, least: int, most: int, body: Sequence[Item], follow: frozenset[str] | None
    ) -> tuple[float, float]:
        chars, may_be_empty, _ = self._starts(body)
        again = chars if follow is None else chars | follow
        inside = follow if most == 1 else None if follow is None and least < 2 else again
        ends, steps = self.of(body, inside)
        is_clear = follow is None or not (chars & follow or may_be_empty)
        if most == 1:
            return (max(ends, 1) if is_clear else ends + 1), steps + 1
        if may_be_empty or ends > 1:
            tries = float(sum(min(ends, 1e9) ** min(n, 30) for n in range(1, most + 1)))
            return tries, tries * steps
        return (1 if is_clear else most - least + 1), most * (steps + 1)

    def _starts(self, items: Sequence[Item]) -> tuple[frozenset[str], bool, bool]:
        """What a sequence can begin with, whether it may be empty, whether it looks around."""
        found, checks = frozenset[str](), False
        for op, value in items:
            name = str(op)
            chars = self.chars(name, value)
            parts: list[tuple[frozenset[str], bool, bool]] = []
            if chars is not None:
                return found | chars, False, checks
            if name in REPEATS:
                parts = [self._starts(value[2])]
                if value[0] == 0:
                    parts = [(parts[0][0], True, parts[0][2])]
            elif name == "SUBPATTERN":
                parts = [self._starts(value[3])]
            elif name == "BRANCH":
                parts = [self._starts(each) for each in value[1]]
            elif name == "AT" and "END" in str(value):
                parts = [(frozenset("\n"), False, True)]
            else:
                checks = True
                continue
            found = found.union(*(part[0] for part in parts))
            checks = checks or any(part[2] for part in parts)
            if not any(part[1] for part in parts):
                return found, False, checks
        return found, True, checks

    def chars(self, name: str, value: Any) -> frozenset[str] | None:
        """What a part that takes one character takes; None for other parts."""
        if name == "ANY":
            return EVERY - {"\n"}
        if name == "NOT_LITERAL":
            return EVERY - self._cases({chr(value)})
        if name == "LITERAL":
            return self._cases({chr(value)})
        if name != "IN":
            return None
        negated, found = False, set[str]()
        for op, each in value:
            kind = str(op)
            if kind == "NEGATE":
                negated = True
            elif kind == "LITERAL":
                found.add(chr(each))
            elif kind == "RANGE":
                found.update(map(chr, range(each[0], each[1] + 1)))
            else:
                word = str(each).lower().removeprefix("category_").removeprefix("uni_")
                belongs = _CATEGORIES[word.removeprefix("not_")]
                found.update(c for c in EVERY if belongs(c) != word.startswith("not_"))
        return EVERY - self._cases(found) if negated else self._cases(found)

    def _cases(self, chars: Iterable[str]) -> frozenset[str]:
        chars = set(chars)
        if self._fold:
            chars |= {c.lower() for c in chars} | {c.upper() for c in chars}
        return frozenset(chars)
