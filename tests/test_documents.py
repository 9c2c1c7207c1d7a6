"""The schemas of what ``--json`` prints: they are made from the code, complete, and strict."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jsonschema
import pytest

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
