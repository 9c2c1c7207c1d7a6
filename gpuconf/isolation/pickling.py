"""cloudpickle, by which functions and classes of scripts and of notebook cells travel by value."""

from __future__ import annotations

import io
import types
from typing import Any

import cloudpickle


class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
    """cloudpickle's, whose functions remember the file of their source.

    cloudpickle 3.1.3 replaces it by ``<dynamic-code>``.  Without it tracebacks have no source
    lines, and AutoGraph cannot convert the function.
    """

    def reducer_override(self, value: Any) -> Any:
        """Return how ``value`` is pickled; NotImplemented for pickle's own way."""
        if isinstance(value, types.CodeType):
            make, parts = self.dispatch_table[types.CodeType](value)
            return _with_file, (make, parts, value.co_filename)
        reduced = super().reducer_override(value)
        has_slots = isinstance(value, type) and vars(value).get("__slots__")
        if has_slots and isinstance(reduced, tuple):
            make, parts, *_ = reduced
            if make.__name__ == "_make_skeleton_class":  # cloudpickle would make it without slots
                parts[3]["__slots__"] = value.__slots__
        return reduced


def _with_file(make: Any, parts: Any, file: str) -> types.CodeType:
    code: types.CodeType = make(*parts)
    return code.replace(co_filename=file)


def pickled(value: Any, pickler: type[Pickler] = Pickler) -> bytes:
    """Return the pickle of a small value, with its arrays inside."""
    file = io.BytesIO()
    pickler(file, protocol=5).dump(value)
    return file.getvalue()


def refusal_of(value: Any, pickler: type[Pickler] = Pickler) -> Exception | None:
    """Return the reason why a value cannot be pickled; None if it can."""
    try:
        pickled(value, pickler)
    except Exception as error:
        return error
    return None
