"""docs/reference/profile-keys.md says what the schema says."""

from __future__ import annotations

from pathlib import Path

import yaml

from gpuconf.profile.schema import GPU, PROFILE, Section

ROOT = Path(__file__).resolve().parents[2]


def test_the_reference_names_every_key() -> None:
    """Each key of the schema has a row with an example."""
    page = ROOT / "docs" / "reference" / "profile-keys.md"
    table = page.read_text(encoding="utf-8")
    sections = [key.rule for key in PROFILE.keys if isinstance(key.rule, Section)]
    inner = [key for section in sections for key in section.keys]
    single = [key for key in PROFILE.keys if not isinstance(key.rule, Section)]
    for key in [*single, *inner]:
        assert f"| `{key.name}` |" in table
        assert f"`{key.name}: {key.example}`" in table


def test_the_texts_are_those_of_the_schema() -> None:
    """docs/profile_keys.yaml has a text for each key, and none for a key that is gone."""
    texts = yaml.safe_load((ROOT / "docs" / "profile_keys.yaml").read_text(encoding="utf-8"))
    sections = [PROFILE, GPU, *(k.rule for k in PROFILE.keys if isinstance(k.rule, Section))]
    assert {name: set(keys) for name, keys in texts.items()} == {
        section.name: {key.name for key in section.keys} for section in sections
    }
    assert all(each["text"] for keys in texts.values() for each in keys.values())


def test_every_shipped_profile_is_in_the_table() -> None:
    """No profile ships without its line in docs/profiles.md and in the README."""
    names = [path.stem for path in (ROOT / "configs").glob("*.yaml")]
    assert len(names) == 8
    for page in ("docs/profiles.md", "README.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        assert [name for name in names if f"`{name}`" not in text] == [], page
