"""A value as JSON has it: what every command's ``--json`` prints."""

from __future__ import annotations

import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

from gpuconf.json_shape import shape_of, written_names


def plain(value: object) -> Any:
    """``value`` in dicts, lists, texts, numbers, true, false and null.

    NamedTuples and dataclasses become objects of their fields, in order, with what their
    `json_shape` computes; paths become texts.  Raises TypeError for a type that has no JSON.
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
    raise TypeError(f"a {type(value).__name__} has no JSON")
