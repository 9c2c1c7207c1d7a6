"""The reference of profile keys in docs/reference/profile-keys.md, made from ``schema.PROFILE``."""

from __future__ import annotations

from collections.abc import Iterable

from profile_schema import TEXTS

from gpuconf.profile.rules import ValueRule
from gpuconf.profile.schema import PROFILE, Key, Section


def key_reference() -> str:
    """Return the Markdown: one table of the top-level keys, and one for each section."""
    single = [key for key in PROFILE.keys if not isinstance(key.rule, Section)]
    tables = [_table("Keys", PROFILE.name, single)]
    tables += [
        _table(f"`{key.name}`", key.rule.name, key.rule.keys, TEXTS[PROFILE.name][key.name]["text"])
        for key in PROFILE.keys
        if isinstance(key.rule, Section)
    ]
    return "\n".join(tables)


def _table(title: str, section: str, keys: Iterable[Key], about: str = "") -> str:
    head = "| key | values | what it does | default | example |"
    lines = [f"## {title}", "", *([about, ""] if about else []), head, "|---|---|---|---|---|"]
    return "\n".join(lines + [_row(key, TEXTS[section][key.name]) for key in keys]) + "\n"


def _row(key: Key, texts: dict[str, str]) -> str:
    says = (
        key.rule.says if isinstance(key.rule, ValueRule) else "GPUs, each with keys such as memory"
    )
    example = f"`{key.name}: {key.example}`"
    cells = [f"`{key.name}`", says, texts["text"], texts.get("default", ""), example]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
