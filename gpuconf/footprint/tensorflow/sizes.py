"""How large a tensor of a graph is."""

from __future__ import annotations

import math
from typing import Any

_NO_BYTES = frozenset({"resource", "variant", "string"})


def count_of(tensor: Any) -> int | None:
    """The number of elements, or None where the shape is not known."""
    shape = tensor.shape
    return math.prod(shape.as_list()) if shape.is_fully_defined() else None


def size_of(tensor: Any) -> int | None:
    """Bytes on the device, or None where the shape is not known; handles have none."""
    if tensor.dtype.name in _NO_BYTES:
        return 0
    count = count_of(tensor)
    return None if count is None else int(count * tensor.dtype.size)


def shape_of(tensor: Any) -> tuple[int, ...]:
    """The shape, or an empty one where it is not known."""
    return tuple(tensor.shape.as_list()) if tensor.shape.is_fully_defined() else ()
