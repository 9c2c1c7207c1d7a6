"""The JSON Schema says the same as the reader, as far as JSON Schema can say it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from gpuconf.profile.files import shipped_folder
from tests.profile.bad_profiles import BAD_PROFILES
from tests.profile.plain_yaml import as_editor_sees
from tests.profile.test_rules import GOOD

SHIPPED = sorted(Path(shipped_folder()).glob("*.yaml"))
SCHEMA = json.loads(Path(shipped_folder(), "profile.schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
EXPRESSIBLE = [bad for bad in BAD_PROFILES if bad.schema_rejects]


def test_it_is_a_schema_of_draft_7() -> None:
    """Every keyword is used as the draft says."""
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def test_good_profiles_are_valid() -> None:
    """What the reader takes, an editor takes: no complaint in any shipped profile or good value."""
    texts = [file.read_text(encoding="utf-8") for file in SHIPPED]
    assert len(texts) > 5
    for text in (*texts, *GOOD):
        assert list(VALIDATOR.iter_errors(as_editor_sees(text))) == [], text


def test_shipped_profiles_name_the_schema() -> None:
    """An editor finds it by their first line."""
    first = "# yaml-language-server: $schema=profile.schema.json\n"
    texts = {file.name: file.read_text(encoding="utf-8") for file in SHIPPED}
    assert [name for name, text in texts.items() if not text.startswith(first)] == []


def test_bad_values_are_rejected() -> None:
    """What the reader refuses, an editor underlines, where JSON Schema can express the rule."""
    seen = {bad.name: as_editor_sees(bad.content.decode()) for bad in EXPRESSIBLE}
    assert [name for name, value in seen.items() if VALIDATOR.is_valid(value)] == []


def test_most_of_the_table_is_expressible() -> None:
    """The exceptions are the text's form, other files, and combinations; no kinds of values."""
    others = ("combinations", "yaml", "code", "bytes")
    values = [bad for bad in BAD_PROFILES if not bad.name.startswith(others)]
    assert len(EXPRESSIBLE) >= 0.75 * len(values)
    assert len(BAD_PROFILES) >= 60


def test_every_key_is_described() -> None:
    """An editor shows what a key is for."""
    sections = [SCHEMA, *SCHEMA["definitions"].values()]
    keys = [key for section in sections for key in section.get("properties", {}).items()]
    assert [name for name, key in keys if not key.get("description")] == []
