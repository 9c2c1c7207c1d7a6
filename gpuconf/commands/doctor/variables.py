"""Values that a framework refuses or ignores, as listed in `variables.yaml`; pure.

For the environment (`checks/variables.py`) and for what a script sets (`source/invalid_values.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from gpuconf.backends.torch.environment import options_in

_ALIKE = 0.75


class BadValue(NamedTuple):
    """A value of a variable that does not do what it says."""

    status: Literal["warn", "fail"]
    """fail: the framework refuses it; warn: it ignores it, or takes it with a consequence."""
    why: str
    meant: str | None = None
    """The value to write instead; None if the variable should not be set."""
    notes: tuple[str, ...] = ()
    is_taken: bool = False
    """The framework takes it, with this consequence."""


@cache
def table() -> dict[str, dict[str, Any]]:
    """The variables, by name."""
    text = Path(__file__).with_name("variables.yaml").read_text("utf-8")
    found: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return found


def bad_values(name: str, value: str, unknown: Collection[str] = ()) -> Iterator[BadValue]:
    """What is wrong with a variable's value; ``unknown`` are options that this torch lacks."""
    rule = table().get(name)
    if rule is None:
        return
    it = f"{name}={value}"
    notes = (rule["note"],) if "note" in rule else ()
    if "options" in rule:
        reasons, kept = _judged_options(rule, value, unknown)
        if reasons:
            status, words = rule["otherwise"]
            why = words.format(it=it, why="; ".join(reasons))
            yield BadValue(status, why, ",".join(kept) or None)
    elif not re.fullmatch(rule["takes"], value):
        status, words = rule["otherwise"]
        yield BadValue(status, words.format(it=it), _meant(rule, value), notes)
    for pattern, words in rule.get("but", {}).items():
        if re.fullmatch(pattern, value):
            yield BadValue("warn", words.format(it=it), None, notes, is_taken=True)


def _judged_options(
    rule: dict[str, Any], value: str, unknown: Collection[str]
) -> tuple[list[str], list[str]]:
    """Why options are refused, and those that may stay, spelled correctly."""
    reasons, kept = [], []
    for given, text in options_in(value):
        name = meant_option(given, rule["known"].split())
        pattern, words = rule["options"].get(name, (".*", ""))
        if name != given:
            reasons.append(f"no release has an option {given}")
        elif name in unknown:
            reasons.append(f"it has no option {name}")
            continue
        if not re.fullmatch(pattern, text):
            reasons.append(f"{name} must be {words}, not {text or 'empty'}")
        else:
            kept.append(f"{name}:{text}" if text else name)
    return reasons, kept


def meant_option(name: str, known: Collection[str]) -> str:
    """The option that ``name`` misspells, or ``name`` if none is similar."""
    from difflib import get_close_matches  # slow import, and misspellings are rare

    close = get_close_matches(name, known, n=1, cutoff=_ALIKE)
    return close[0] if close and name not in known else name


def _meant(rule: dict[str, Any], value: str) -> str | None:
    fitting = (
        re.sub(pattern, new, value, count=1)
        for pattern, new in rule.get("meant", {}).items()
        if re.fullmatch(pattern, value)
    )
    return next(fitting, None)
