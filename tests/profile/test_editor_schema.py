"""The JSON Schema says the same as the reader, as far as JSON Schema can say it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuconf.profile import json_schema
from gpuconf.profile.files import shipped_folder
from tests.profile.bad_profiles import BAD_PROFILES, BadProfile
from tests.profile.plain_yaml import as_editor_sees
from tests.profile.test_rules import GOOD

SHIPPED = sorted(Path(shipped_folder()).glob("*.yaml"))
VALIDATOR = jsonschema.Draft7Validator(json_schema())
EXPRESSIBLE = [bad for bad in BAD_PROFILES if bad.schema_rejects]


def test_the_file_is_the_generated_one() -> None:
    """After a change: `gpuconf profiles schema > configs/profile.schema.json`."""
    file = Path(shipped_folder(), "profile.schema.json")
    assert file.read_text(encoding="utf-8") == json.dumps(json_schema(), indent=2) + "\n"


def test_it_is_a_schema_of_draft_7() -> None:
    """Every keyword is used as the draft says."""
    jsonschema.Draft7Validator.check_schema(json_schema())


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_shipped_profiles_are_valid(file: Path) -> None:
    """An editor shows no complaint in any of them, and finds the schema by the first line."""
    text = file.read_text(encoding="utf-8")
    assert text.startswith("# yaml-language-server: $schema=profile.schema.json\n")
    VALIDATOR.validate(as_editor_sees(text))


@pytest.mark.parametrize("text", [text for text, _, _ in GOOD])
def test_good_values_are_valid(text: str) -> None:
    """What the reader takes, an editor takes."""
    VALIDATOR.validate(as_editor_sees(text))


@pytest.mark.parametrize("bad", EXPRESSIBLE, ids=[bad.name for bad in EXPRESSIBLE])
def test_bad_values_are_rejected(bad: BadProfile) -> None:
    """What the reader refuses, an editor underlines, where JSON Schema can express the rule."""
    assert not VALIDATOR.is_valid(as_editor_sees(bad.content.decode()))


def test_most_of_the_table_is_expressible() -> None:
    """The exceptions are the text's form, other files, and sums; not whole kinds of values."""
    values = [bad for bad in BAD_PROFILES if not bad.name.startswith(("yaml", "code", "bytes"))]
    assert len(EXPRESSIBLE) >= 0.75 * len(values)
    assert len(BAD_PROFILES) >= 60


def test_every_key_is_described() -> None:
    """An editor shows what a key is for."""

    def undescribed(schema: dict[str, Any]) -> list[str]:
        missing = []
        for name, inner in schema.get("properties", {}).items():
            missing += [] if inner.get("description") else [name]
        return missing

    schema = json_schema()
    sections = [schema, *schema["definitions"].values()]
    assert [name for section in sections for name in undescribed(section)] == []
