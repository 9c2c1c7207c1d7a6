"""How a value type is written as JSON: field rules, computed fields and renamed keys.

`gpuconf.basics.json_values` uses it to write and read values, and docs/schemas.py generates the
JSON Schemas in configs/ from it.  The docstring below a field becomes its description there; for a
computed field, the property's docstring does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

Type = TypeVar("Type", bound=type)


class FieldRule(NamedTuple):
    """Constraints on a field's value beyond its type; each is a JSON Schema keyword."""

    minimum: int | None = None
    maximum: int | None = None
    pattern: str | None = None
    min_length: int | None = None
    enum: tuple[str, ...] | None = None


Count = Annotated[int, FieldRule(minimum=0)]
Bytes = Annotated[int, FieldRule(minimum=0)]
FromOne = Annotated[int, FieldRule(minimum=1)]


class JsonShape(NamedTuple):
    """How the JSON of a value type differs from its fields; used as a decorator, it declares this.

    ``computed`` lists properties that are also written, and ``hidden`` lists fields that are not.
    ``renamed`` maps fields to other keys.  ``keywords`` holds further rules in JSON Schema form.
    """

    computed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    keywords: Mapping[str, Any] = {}

    def __call__(self, cls: Type) -> Type:
        _SHAPES[cls] = self
        return cls

    def key(self, name: str) -> str:
        """Return the key of a field."""
        return self.renamed.get(name, name)


json_shape = JsonShape
_SHAPES: dict[type, JsonShape] = {}


def shape_of(cls: type) -> JsonShape:
    """Return the declared shape, or the default if none was declared."""
    return _SHAPES.get(cls, JsonShape())


def field_names(cls: type) -> tuple[str, ...] | None:
    """Return the fields of a NamedTuple or dataclass, in order; None for any other type."""
    fields = getattr(cls, "__dataclass_fields__", None)  # importing `dataclasses` is slow
    if fields is not None:
        return tuple(fields)
    names = getattr(cls, "_fields", None)
    return names if isinstance(names, tuple) and issubclass(cls, tuple) else None


def written_names(cls: type) -> tuple[str, ...] | None:
    """Return the fields and properties that are written, in order; None if not a value type."""
    names, shape = field_names(cls), shape_of(cls)
    if names is None:
        return None
    return (*(name for name in names if name not in shape.hidden), *shape.computed)
