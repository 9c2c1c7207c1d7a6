"""The reference of profile keys in docs/profiles.md, made from ``schema.PROFILE``."""

from __future__ import annotations

from gpuconf.profile.rules import ValueRule
from gpuconf.profile.schema import PROFILE, Key, Section


def key_reference() -> str:
    """Return the Markdown: one table of the top-level keys, and one for each section."""
    sections = [(key, key.rule) for key in PROFILE.keys if isinstance(key.rule, Section)]
    single = [key for key in PROFILE.keys if not isinstance(key.rule, Section)]
    tables = [_table("Keys", single)]
    tables += [_table(f"`{key.name}`", list(rule.keys), key.description) for key, rule in sections]
    return "\n".join(tables)


def _table(title: str, keys: list[Key], about: str = "") -> str:
    head = "| key | values | what it does | default | example |"
    lines = [f"### {title}", "", *([about, ""] if about else []), head, "|---|---|---|---|---|"]
    return "\n".join(lines + [_row(key) for key in keys]) + "\n"


def _row(key: Key) -> str:
    says = (
        key.rule.says if isinstance(key.rule, ValueRule) else "GPUs, each with keys such as memory"
    )
    example = f"`{key.name}: {key.example}`"
    cells = [f"`{key.name}`", says, key.description, key.default, example]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
