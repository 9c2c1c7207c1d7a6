"""Convert values to JSON and back, for ``--json`` output and for data from child processes.

Reading is tolerant.  A child may fail in the middle of a line, and a framework may print anything
anywhere.  A line without an object is skipped, and a field of the wrong type gets its default. Use
`decoded_exactly` for data that must arrive unchanged.
"""

from __future__ import annotations

import json
import os
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from gpuconf.basics.json_shape import FieldRule, field_names, shape_of, written_names

Value = TypeVar("Value")

_BEYOND = 2.0**63  # larger than any of our figures; a larger integer may overflow a float


class UnreadableError(ValueError):
    """The data does not match the requested type."""


def plain(value: object) -> Any:
    """Convert ``value`` to dicts, lists, strings, numbers, booleans and None.

    NamedTuples and dataclasses become objects with one key per field, in order, plus the computed
    fields of their `json_shape`; paths become strings. Raises TypeError for a type without a JSON
    form.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    names = written_names(type(value))
    if names is not None:
        shape = shape_of(type(value))
        return {shape.key(name): plain(getattr(value, name)) for name in names}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON")


def json_objects(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects among the lines of ``text``; skip the other lines."""
    for line in text.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def decoded(cls: type[Value], data: object) -> Value:
    """Build a value of ``cls`` from its JSON; raise UnreadableError if that is impossible.

    A missing field or one of the wrong type gets its default, and a list entry of the wrong type is
    dropped.  Only a field without a default can make a value unreadable.
    """
    value: Value = _decoded(cls, data)
    return value


def decoded_exactly(cls: type[Value], data: object) -> Value:
    """Like :func:`decoded`, but also raise UnreadableError if anything was dropped or replaced."""
    value = decoded(cls, data)
    if plain(value) != data:
        raise UnreadableError(f"a {cls.__name__} with a different structure")
    return value


def _decoded(kind: Any, data: object) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is not None:
        return _compound(origin, arguments, data)
    if kind in (Any, object):
        return data
    return _scalar(kind, data) if field_names(kind) is None else _record(kind, _object(data))


def _compound(origin: Any, kinds: tuple[Any, ...], data: object) -> Any:
    if origin is Annotated:
        return _checked(_decoded(kinds[0], data), kinds[1:])
    if origin in (Union, types.UnionType):
        found = [value for kind in kinds for value in _readings(kind, data)]
        return _if(bool(found), found)[0]
    if origin is Literal:
        return _if(data in kinds, data)
    if origin is tuple:
        return _tuple(kinds, data)
    return {str(key): _decoded(kinds[1], each) for key, each in _object(data).items()}


def _readings(kind: Any, data: object) -> list[Any]:
    """Return a list with the value, or an empty list if it cannot be read."""
    try:
        return [_decoded(kind, data)]
    except UnreadableError:
        return []


def _record(cls: type, data: Mapping[str, Any]) -> Any:
    shape = shape_of(cls)
    there = {name: kind for name, kind in _kinds(cls).items() if shape.key(name) in data}
    readings = {name: _readings(kind, data[shape.key(name)]) for name, kind in there.items()}
    try:
        return cls(**{name: found[0] for name, found in readings.items() if found})
    except TypeError:  # a field without a default is missing
        raise UnreadableError(cls.__name__) from None


@cache
def _kinds(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in field_names(cls) or ()}


def _tuple(kinds: tuple[Any, ...], data: object) -> tuple[Any, ...]:
    entries = _if(isinstance(data, (list, tuple)), data)
    if kinds[-1] is Ellipsis:
        return tuple(value for each in entries for value in _readings(kinds[0], each))
    _if(len(entries) == len(kinds), entries)
    return tuple(_decoded(kind, each) for kind, each in zip(kinds, entries, strict=True))


def _scalar(kind: Any, data: object) -> Any:
    """Convert a scalar; a number must be finite and not a bool, whatever JSON and Python allow."""
    if kind is None or kind is types.NoneType:
        return _if(data is None, data)
    if kind in (int, float):
        is_number = isinstance(data, (int, kind)) and not isinstance(data, bool)
        return kind(_if(is_number and -_BEYOND < data < _BEYOND, data))  # type: ignore[operator]
    return _if(isinstance(data, kind), data)


def _object(data: object) -> Mapping[str, Any]:
    found: Mapping[str, Any] = _if(isinstance(data, dict), data)
    return found


def _checked(value: Any, rules: tuple[Any, ...]) -> Any:
    for rule in (each for each in rules if isinstance(each, FieldRule)):
        _if(rule.minimum is None or value >= rule.minimum, value)
        _if(rule.maximum is None or value <= rule.maximum, value)
        _if(rule.min_length is None or len(value) >= rule.min_length, value)
        _if(rule.enum is None or value in rule.enum, value)
    return value


def _if(is_readable: bool, data: object) -> Any:
    if not is_readable:
        raise UnreadableError(str(data)[:100])
    return data
