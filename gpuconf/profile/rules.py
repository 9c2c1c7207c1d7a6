"""Rules for a single value: each one reads a node and describes itself as JSON Schema and text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from gpuconf.basics.units import (
    MIB,
    Amount,
    exact_size,
    meant_size,
    parse_amount,
    parse_share,
    parse_size,
)
from gpuconf.errors import ProfileError
from gpuconf.profile.nodes import Node, Scalar
from gpuconf.profile.problems import found, nearest, problem

JsonSchema = dict[str, Any]

_FLAGS = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}
_LONGEST_TEXT = 2000
# Characters that move a terminal's cursor, change its colors or change the text direction.
_STEERING = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")

_SIZE_PATTERN = r"([0-9]+(\.[0-9]+)?|\.[0-9]+)\s*([KkMmGgTt][Ii]?)?[Bb]"
_SHARE_PATTERN = r"(100(\.0+)?|[0-9]{1,2}(\.[0-9]+)?|\.[0-9]+)\s*%"
# Not zero: at least one digit other than 0 before the unit.
_NOT_ZERO = r"(?=[^1-9]*[1-9])"


class ValueRule(NamedTuple):
    """``read(node, key)`` returns the value or raises ProfileError; ``says`` describes the rule."""

    read: Callable[[Node, str], object]
    schema: JsonSchema
    says: str


def refuse(node: Node, key: str, rule: str, hint: str) -> ProfileError:
    """Build the error ``expected …; found …`` at ``node``."""
    return problem(f"expected {rule}; {found(node)}", mark=node.mark, key=key, hint=hint)


def scalar(node: Node, key: str, rule: str, example: str) -> Scalar:
    """Return ``node`` if it is a single, non-empty value; raise the error otherwise."""
    name = key.rpartition(".")[2]
    if isinstance(node, Scalar) and node.is_empty:
        hint = f"write `{name}: {example}`, or `{name}: null` to remove an inherited rule"
        raise refuse(node, key, rule, hint)
    if not isinstance(node, Scalar):
        raise refuse(node, key, rule, f"write `{name}: {example}`")
    return node


def has_steering(text: str) -> bool:
    """Whether ``text`` has terminal control characters other than tab and line feed."""
    return not text.isprintable() and _STEERING.search(text) is not None


def flag(*, example: str = "true") -> ValueRule:
    """true or false, or YAML 1.1's on, off, yes and no; never a number or quoted text."""
    says = "true or false"

    def read(node: Node, key: str) -> bool:
        node = scalar(node, key, says, example)
        value = _FLAGS.get(node.text.lower())
        if value is None or node.is_quoted:
            name = key.rpartition(".")[2]
            meant = value if value is not None else node.text not in ("0", "none", "never")
            raise refuse(node, key, says, f"write `{name}: {'true' if meant else 'false'}`")
        return value

    words = "^([Oo][Nn]|[Oo][Ff][Ff]|[Yy][Ee][Ss]|[Nn][Oo])$"
    return ValueRule(
        read, {"anyOf": [{"type": "boolean"}, {"type": "string", "pattern": words}]}, says
    )


def choice(*choices: str) -> ValueRule:
    """One of several words."""
    says = "one of " + ", ".join(choices)

    def read(node: Node, key: str) -> str:
        node = scalar(node, key, says, choices[0])
        if node.text not in choices:
            name = key.rpartition(".")[2]
            raise refuse(
                node, key, says, f"write `{name}: {nearest(node.text, choices) or choices[0]}`"
            )
        return node.text

    return ValueRule(read, {"type": "string", "enum": list(choices)}, says)


def text(*, says: str, example: str) -> ValueRule:
    """Any text, taken as written."""

    def read(node: Node, key: str) -> str:
        node = scalar(node, key, says, example)
        if len(node.text) > _LONGEST_TEXT or not node.text.strip():
            raise refuse(node, key, f"1 to {_LONGEST_TEXT} characters", "use a few words")
        if has_steering(node.text):
            raise refuse(node, key, "no control characters except tab and line feed", "delete it")
        return node.text

    schema: JsonSchema = {
        "type": ["string", "number", "boolean"],
        "maxLength": _LONGEST_TEXT,
        "pattern": f"^{_STEERING.pattern.replace('[', '[^', 1)}*$",
    }
    return ValueRule(read, schema, says)


def fraction(*, whole: bool = True) -> ValueRule:
    """A fraction of the GPU above 0 and up to 1, or a percentage; below 1 if not ``whole``."""
    limit = "at most 1" if whole else "below 1"
    says = f"a number above 0 and {limit}, or a percentage such as 70%"

    def read(node: Node, key: str) -> float:
        node = scalar(node, key, says, "0.7")
        value = _percentage(node.text) if node.text.endswith("%") else _number(node)
        if value == 1 and not whole:
            raise refuse(node, key, says, f"write `{key.rpartition('.')[2]}: 0.8`")
        if value is None or not 0 < value <= 1:
            raise refuse(node, key, says, "write 0.7 for 70 % of the GPU, or null for no rule")
        return value

    part, highest = ("", "maximum") if whole else ("(?!100)", "exclusiveMaximum")
    schema: JsonSchema = {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0, highest: 1},
            {"type": "string", "pattern": f"^{_NOT_ZERO}{part}{_SHARE_PATTERN}$"},
        ]
    }
    return ValueRule(read, schema, says)


def _percentage(written: str) -> float | None:
    try:
        return parse_share(written)
    except ValueError:
        return None


def _number(node: Scalar) -> float | None:
    """Return the number at ``node``; None for text, quoted text and NaN."""
    if node.is_quoted or len(node.text) > 64 or node.text.strip("0123456789+-.eE"):
        return None  # float() accepts more: nan, 1_000, spaces, digits of other scripts
    try:
        value = float(node.text)
    except ValueError:
        return None
    return value if abs(value) < float("inf") else None


def size(*, at_least: int = 0, example: str) -> ValueRule:
    """A size with a unit, of at least ``at_least`` bytes."""
    floor = f", at least {exact_size(at_least)}" if at_least else ""
    says = "a size such as 6GiB, 512MiB, or 900 MB" + floor

    def read(node: Node, key: str) -> int:
        node = scalar(node, key, says, example)
        try:
            value = parse_size(node.text)
        except ValueError as error:
            raise _refused_size(node, key, error, example) from None
        if value < at_least:
            raise refuse(node, key, says, f"write {example}, or null for no rule")
        return value

    pattern = f"^{_NOT_ZERO if at_least else ''}{_SIZE_PATTERN}$"
    return ValueRule(read, {"type": "string", "pattern": pattern}, says)


def whole(*, at_least: int, at_most: int, example: str) -> ValueRule:
    """A whole number in the given range, written in digits."""
    says = f"an integer from {at_least} to {at_most}"

    def read(node: Node, key: str) -> int:
        node = scalar(node, key, says, example)
        digits = node.text.isascii() and node.text.isdigit() and len(node.text) < 10
        is_number = digits and not node.is_quoted
        if not is_number or not at_least <= int(node.text) <= at_most:
            raise refuse(node, key, says, f"write `{key.rpartition('.')[2]}: {example}`")
        return int(node.text)

    return ValueRule(read, {"type": "integer", "minimum": at_least, "maximum": at_most}, says)


def amount(*, of: str, zero: bool = False, example: str) -> ValueRule:
    """A size or a percentage ``of`` something, at least 1 MiB unless ``zero`` is allowed."""
    says = f"a size such as 6GiB or 900 MB, or a percentage {of}"

    def read(node: Node, key: str) -> Amount:
        node = scalar(node, key, says, example)
        try:
            value = parse_amount(node.text)
        except ValueError as error:
            raise _refused_size(node, key, error, example) from None
        if not zero and not _is_worth_a_rule(value):
            rule = f"{says}, at least 1MiB"
            raise refuse(node, key, rule, f"write {example}, or null for no rule")
        return value

    pattern = f"^{'' if zero else _NOT_ZERO}({_SIZE_PATTERN}|{_SHARE_PATTERN})$"
    return ValueRule(read, {"type": "string", "pattern": pattern}, says)


def _is_worth_a_rule(value: Amount) -> bool:
    """Whether the size is at least 1 MiB; TensorFlow counts limits in whole MiB."""
    return bool(value.share) if value.size_bytes is None else value.size_bytes >= MIB


def rule_of(error: ValueError) -> str:
    """Return the rule in an error from gpuconf.basics.units, for `refuse`."""
    return str(error).removeprefix("expected ")


def _refused_size(node: Scalar, key: str, error: ValueError, example: str) -> ProfileError:
    rule = rule_of(error)
    if node.text.startswith("-"):
        rule = "an amount that is not negative"
        to_keep = ", or use keep_free to leave that much memory to others" if "limit" in key else ""
        return refuse(node, key, rule, f"write {example}{to_keep}")
    meant = None if "at most" in rule else meant_size(node.text)
    return refuse(node, key, rule, f"write {meant or example}")
