"""JSON Schemas (draft 7) of what commands print with ``--json``, from the documents' value types.

A class's description is the first paragraph of its docstring, a field's the docstring below it,
a computed field's the docstring of its property.  Every field is required, and no other is allowed.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
import types
from collections.abc import Mapping
from typing import (
    Annotated,
    Any,
    Literal,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from gpuconf.basics.json_shape import FieldRule, field_names, shape_of, written_names

Schema = dict[str, Any]

_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}
_KEYWORDS = {"min_length": "minLength"}  # those of FieldRule that JSON Schema spells otherwise
_PYTHON = ((r"``", "`"), (r"\bNone\b", "null"), (r"\bTrue\b", "true"), (r"\bFalse\b", "false"))
_VERSION = {"description": "of the documents of all gpuconf commands", "const": 1}


def schema_of(command: str, *documents: type) -> Schema:
    """The schema of a command that prints one of ``documents``."""
    definitions = _Definitions()
    references = [definitions.reference(document) for document in documents]
    for document in documents:
        written = definitions.schemas[_name(document)]
        written["required"].insert(0, "schema_version")
        written["properties"] = {"schema_version": _VERSION, **written["properties"]}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": f"gpuconf {command} --json",
        "description": f"What `gpuconf {command} --json` prints, also where it fails. "
        "Sizes are in bytes; null is what is not known.",
        "oneOf": references,
        "definitions": definitions.schemas,
    }


class _Definitions:
    """The schemas of value types, by name; types refer to each other."""

    def __init__(self) -> None:
        self.schemas: dict[str, Schema] = {}
        self._types: dict[str, type] = {}

    def reference(self, cls: type) -> Schema:
        """The reference to a value type's schema, which is made where there is none yet."""
        name = _name(cls)
        if self._types.setdefault(name, cls) is not cls:
            raise ValueError(f"two types are named {name}: {cls}, {self._types[name]}")
        if name not in self.schemas:
            self.schemas[name] = {}  # a type may hold others of its own kind
            self.schemas[name] = self._object(cls)
        return {"$ref": f"#/definitions/{name}"}

    def _object(self, cls: type) -> Schema:
        shape, hints = shape_of(cls), get_type_hints(cls, include_extras=True)
        fields = {name: hints[name] for name in written_names(cls) or hints if name in hints}
        for name in shape.computed:
            fields[name] = get_type_hints(getattr(cls, name).fget, include_extras=True)["return"]
        words = _field_descriptions(cls)
        properties = {
            shape.key(name): _described(self._schema(kind), words.get(name, ""))
            for name, kind in fields.items()
        }
        return {
            "description": _words(inspect.getdoc(cls) or "").split("\n\n")[0],
            "type": "object",
            "additionalProperties": False,
            "required": [] if is_typeddict(cls) else list(properties),
            "properties": properties,
            **shape.keywords,
        }

    def _schema(self, kind: Any) -> Schema:
        """The schema of a type as it stands in an annotation."""
        if kind in (Any, object):
            return {}
        if kind in _NAMES:
            return {"type": _NAMES[kind]}
        if field_names(kind) is not None or is_typeddict(kind):
            return self.reference(kind)
        return self._compound(get_origin(kind), get_args(kind))

    def _compound(self, origin: Any, arguments: tuple[Any, ...]) -> Schema:
        if origin is Annotated:
            rules = [_keywords(each) for each in arguments[1:] if isinstance(each, FieldRule)]
            known = next((rule for rule in rules if "enum" in rule), None)
            return known or {
                **self._schema(arguments[0]),
                **{k: v for r in rules for k, v in r.items()},
            }
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, types.UnionType):
            return _union([self._schema(each) for each in arguments])
        if origin in (tuple, list):
            return self._array(arguments)
        if isinstance(origin, type) and issubclass(origin, Mapping):
            return self._mapping(*arguments)
        raise TypeError(f"no schema for {origin}{arguments}")

    def _mapping(self, key: Any, value: Any) -> Schema:
        if get_origin(key) is not Literal:
            return {"type": "object", "additionalProperties": self._schema(value)}
        return {
            "type": "object",
            "additionalProperties": False,
            "required": list(get_args(key)),
            "properties": {name: self._schema(value) for name in get_args(key)},
        }

    def _array(self, arguments: tuple[Any, ...]) -> Schema:
        if len(arguments) == 1 or arguments[-1] is Ellipsis:
            return {"type": "array", "items": self._schema(arguments[0])}
        items = [self._schema(each) for each in arguments]
        return {"type": "array", "items": items, "minItems": len(items), "maxItems": len(items)}


def _name(cls: type) -> str:
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", cls.__name__).lower()


def _keywords(rule: FieldRule) -> Schema:
    given = {name: value for name, value in rule._asdict().items() if value is not None}
    return {
        _KEYWORDS.get(name, name): list(value) if isinstance(value, tuple) else value
        for name, value in given.items()
    }


def _union(schemas: list[Schema]) -> Schema:
    """One of several; the common ``X | None`` in its short form."""
    others = [schema for schema in schemas if schema != {"type": "null"}]
    if len(others) == 1 and "enum" in others[0]:
        return {"enum": [*others[0]["enum"], None]}
    if len(others) == 1 and isinstance(others[0].get("type"), str):
        return {**others[0], "type": [others[0]["type"], "null"]}
    return {"anyOf": schemas}


def _described(schema: Schema, words: str) -> Schema:
    """With a description first; next to a reference nothing else may stand in draft 7."""
    if not words:
        return schema
    return {"description": words, **({"allOf": [schema]} if "$ref" in schema else schema)}


def _field_descriptions(cls: type) -> dict[str, str]:
    """The docstrings below the fields of a class, and those of its properties, by name."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for statement, following in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.FunctionDef):
            found[statement.name] = ast.get_docstring(statement) or ""
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = following.value if isinstance(following, ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[statement.target.id] = inspect.cleandoc(text.value)
    return {name: _words(text).split("\n\n")[0] for name, text in found.items()}


def _words(text: str) -> str:
    """A docstring's text as readers of JSON know things, a paragraph a line."""
    for python, json in _PYTHON:
        text = re.sub(python, json, text)
    paragraphs = text.split("\n\n")
    return "\n\n".join(" ".join(each.split()).removesuffix(".") for each in paragraphs)
