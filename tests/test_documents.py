"""The schemas of what ``--json`` prints: they are made from the code, complete, and strict."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from types import ModuleType
from typing import Annotated, Any, Literal, NamedTuple

import jsonschema
import pytest

from gpuconf.json_shape import Bytes, FieldRule
from tests.cli.commands import ROOT, schema


def _generate() -> ModuleType:
    """docs/generate.py, which no package holds."""
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GENERATE = _generate()
TEXTS = {file.name: (file, text) for file, text in GENERATE.schemas()}
COMMANDS = list(GENERATE.DOCUMENTS)


def properties(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that is described anywhere in a schema, with its place."""
    if isinstance(part, dict):
        # Below "then" stands a further rule for a field, and no field.
        for name, field in part.get("properties", {}).items():
            yield f"{place}.{name}", field
        for name, each in part.items():
            if name not in ("if", "then"):
                yield from properties(each, f"{place}.{name}")


@pytest.mark.parametrize("name", TEXTS)
def test_the_schema_is_as_generated(name: str) -> None:
    """After a change of a document: `make generated`."""
    file, text = TEXTS[name]
    assert file.read_text(encoding="utf-8") == text


def test_no_schema_is_written_by_hand() -> None:
    """Every schema in configs/ is a generated one."""
    assert {file.name for file in (ROOT / "configs").glob("*.schema.json")} == set(TEXTS)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_schema_is_one(command: str) -> None:
    """By the rules for schemas, which a typing error in a keyword's value would break."""
    jsonschema.Draft7Validator.check_schema(schema(command))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_field_is_described(command: str) -> None:
    """In words: the docstring below the field; counts by status need none."""
    undescribed = [
        place
        for place, field in properties(schema(command))
        if not field.get("description") and ".counts." not in place
    ]
    assert undescribed == []


@pytest.mark.parametrize("command", COMMANDS)
def test_no_object_takes_other_fields(command: str) -> None:
    """And all that are always written are required."""
    for name, each in schema(command)["definitions"].items():
        assert each["additionalProperties"] is False, name
        assert each["required"] in ([], list(each["properties"])), name
        assert bool(each["required"]) != (name == "details"), name


class Piece(NamedTuple):
    """A piece.

    Further words.
    """

    size_bytes: Bytes | None
    """Its size, ``None`` where it is unknown."""
    kind: Literal["a", "b"] | None
    parts: tuple[Piece, ...] = ()
    """Its parts."""
    share: Annotated[float, FieldRule(minimum=0, maximum=1)] = 0.5
    """A share."""


def test_what_is_made_of_a_value_type() -> None:
    """Descriptions, bounds, choices, null, types that hold their own kind; one word is missing."""
    made = GENERATE.schema_of("show", Piece)
    assert made["oneOf"] == [{"$ref": "#/definitions/piece"}]
    piece = made["definitions"]["piece"]
    assert piece["description"] == "A piece"
    assert piece["required"] == ["schema_version", "size_bytes", "kind", "parts", "share"]
    del piece["properties"]["schema_version"]
    assert piece["properties"] == {
        "size_bytes": {
            "description": "Its size, `null` where it is unknown",
            "type": ["integer", "null"],
            "minimum": 0,
        },
        "kind": {"enum": ["a", "b", None]},
        "parts": {
            "description": "Its parts",
            "type": "array",
            "items": {"$ref": "#/definitions/piece"},
        },
        "share": {"description": "A share", "type": "number", "minimum": 0, "maximum": 1},
    }
    assert [place for place, field in properties(made) if not field.get("description")] == [
        ".definitions.piece.kind"
    ]


class PIECE(NamedTuple):
    """Another type whose definition would have the name of the first."""

    first: Piece
    """The first."""


def test_two_types_of_one_name_are_refused() -> None:
    """One of them would be described as the other."""
    with pytest.raises(ValueError, match="two types are named piece"):
        GENERATE.schema_of("show", PIECE)
