"""Convert values given in code to the same nodes as files, so that one schema checks both."""

from __future__ import annotations

from collections.abc import Mapping as PlainMapping

from gpuconf.basics.units import Amount
from gpuconf.profile import validation
from gpuconf.profile.nodes import Entry, Mapping, Mark, Node, Scalar, Sequence
from gpuconf.profile.problems import problem, quoted

_NOWHERE = Mark()
_DEEPEST = 10


def checked_nodes(overrides: PlainMapping[str, object]) -> Mapping:
    """Convert ``overrides`` to nodes; raise ProfileError for the first that breaks a rule."""
    changes = to_nodes(overrides)
    _, problems = validation.read(changes)
    if problems:
        raise problems[0]
    return changes


def to_nodes(overrides: PlainMapping[str, object]) -> Mapping:
    """Convert ``overrides`` to nodes; raise ProfileError for ``extends`` and unsupported types."""
    if "extends" in overrides:
        hint = "name the profile itself: gpuconf.load_profile(NAME, overrides=…)"
        raise problem("cannot be overridden", mark=_NOWHERE, key="extends", hint=hint)
    return _mapping(overrides, "", 0)


def _mapping(value: PlainMapping[str, object], key: str, depth: int) -> Mapping:
    entries: dict[str, Entry] = {}
    for name, inner in value.items():
        path = f"{key}.{name}" if key else str(name)
        if isinstance(name, bool) or not isinstance(name, (str, int)):
            hint = 'write text, such as {"memory": {"memory_limit": "4GiB"}}'
            message = f"found {type(name).__name__} as a key"
            raise problem(message, mark=_NOWHERE, key=key or None, hint=hint)
        if "." in str(name) and not key:
            parent, _, child = str(name).partition(".")
            hint = f'nest it: {{"{parent}": {{"{child}": …}}}}'
            raise problem(f"unknown key {quoted(str(name))}", mark=_NOWHERE, key=path, hint=hint)
        entries[str(name)] = Entry(_NOWHERE, _node(inner, path, depth + 1))
    return Mapping(entries, _NOWHERE)


def _node(value: object, key: str, depth: int) -> Node:
    if depth > _DEEPEST:
        raise problem("nested too deeply", mark=_NOWHERE, key=key, hint="write fewer levels")
    if isinstance(value, (Scalar, Sequence, Mapping)):
        return _placeless(value)
    if isinstance(value, (str, Amount)):  # an Amount is also a tuple, so check it first
        return Scalar(str(value), True, _NOWHERE)
    if isinstance(value, PlainMapping):
        return _mapping(value, key, depth)
    if isinstance(value, (list, tuple)):
        items = [_node(item, f"{key}[{i}]", depth + 1) for i, item in enumerate(value)]
        return Sequence(tuple(items), _NOWHERE)
    return _unquoted(value, key)


def _placeless(node: Node) -> Node:
    """What ``--set`` has read, as if it had been given in code."""
    if isinstance(node, Scalar):
        return node._replace(mark=_NOWHERE)
    if isinstance(node, Sequence):
        return Sequence(tuple(map(_placeless, node.items)), _NOWHERE)
    entries = {name: Entry(_NOWHERE, _placeless(each.value)) for name, each in node.entries.items()}
    return Mapping(entries, _NOWHERE)


def _unquoted(value: object, key: str) -> Scalar:
    """Convert None, booleans and numbers to the form they have without quotes."""
    if value is None:
        return Scalar("null", False, _NOWHERE)
    if isinstance(value, bool):
        return _flag(value, key)
    if isinstance(value, (int, float)):
        return Scalar(_number(value), False, _NOWHERE)
    message = f"found a value of type {type(value).__name__}"
    hint = "use text, a number, True or False, None, a list, or a dict"
    raise problem(message, mark=_NOWHERE, key=key, hint=hint)


def _flag(value: bool, key: str) -> Scalar:
    if key.startswith("env."):  # "True", "true" or "1"? Programs accept different forms.
        hint = 'use the text that the program expects, such as "1" or "true"'
        raise problem(f"found {value}", mark=_NOWHERE, key=key, hint=hint)
    return Scalar("true" if value else "false", False, _NOWHERE)


def _number(value: int | float) -> str:
    """Return the digits of ``value``; an int of thousands of digits is shortened, and rejected
    later.
    """
    if isinstance(value, int) and value.bit_length() > 1000:
        return "-1e999" if value < 0 else "1e999"
    return repr(float(value)) if isinstance(value, float) else str(int(value))
