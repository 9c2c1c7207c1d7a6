"""What a value type says about its form in JSON: rules for fields, computed fields, other names.

`gpuconf.json_values` writes values by it and reads them back, and
docs/schemas.py makes the JSON Schemas in configs/ from it.  A field's description there is the
docstring below the field; that of a computed one is its property's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeVar

from gpuconf.records import NamedTuple

Type = TypeVar("Type", bound=type)


class FieldRule(NamedTuple):
    """What a field's value must keep to, beyond its type; each part is a keyword of JSON Schema."""

    minimum: int | None = None
    maximum: int | None = None
    pattern: str | None = None
    min_length: int | None = None
    enum: tuple[str, ...] | None = None


Count = Annotated[int, FieldRule(minimum=0)]
Bytes = Annotated[int, FieldRule(minimum=0)]
FromOne = Annotated[int, FieldRule(minimum=1)]


class JsonShape(NamedTuple):
    """How a value type differs from its fields.

    ``computed`` are properties that are written too, ``hidden`` fields that are not, ``renamed``
    the keys of fields whose name is another, ``keywords`` further rules, as JSON Schema has them.
    """

    computed: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    renamed: Mapping[str, str] = {}
    keywords: Mapping[str, Any] = {}

    def key(self, name: str) -> str:
        """The key of a field."""
        return self.renamed.get(name, name)


_SHAPES: dict[type, JsonShape] = {}


def json_shape(
    *,
    computed: tuple[str, ...] = (),
    hidden: tuple[str, ...] = (),
    renamed: Mapping[str, str] | None = None,
    keywords: Mapping[str, Any] | None = None,
) -> Callable[[Type], Type]:
    """Declare how a value type is written where that is not just its fields."""

    def declare(cls: Type) -> Type:
        _SHAPES[cls] = JsonShape(computed, hidden, renamed or {}, keywords or {})
        return cls

    return declare


def shape_of(cls: type) -> JsonShape:
    """The declared shape; that of the bare fields where none is declared."""
    return _SHAPES.get(cls, JsonShape())


def field_names(cls: type) -> tuple[str, ...] | None:
    """The fields of a NamedTuple or a dataclass, in order; None for another type."""
    fields = getattr(cls, "__dataclass_fields__", None)  # `dataclasses` takes long to import
    if fields is not None:
        return tuple(fields)
    names = getattr(cls, "_fields", None)
    return names if isinstance(names, tuple) and issubclass(cls, tuple) else None


def written_names(cls: type) -> tuple[str, ...] | None:
    """The fields and properties that are written, in order; None for no value type."""
    names, shape = field_names(cls), shape_of(cls)
    if names is None:
        return None
    return (*(name for name in names if name not in shape.hidden), *shape.computed)
