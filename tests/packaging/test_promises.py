"""What docs/reference/stability.md promises does not change by accident."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.commands.cli.commands import ROOT
from tests.documents.page_tools import docs_module

PROMISED = Path(__file__).with_name("promised.txt")
PAGE = (ROOT / "docs" / "reference" / "stability.md").read_text(encoding="utf-8")
TODO = """
-: programs use it. Keep it working, with a warning, as docs/reference/stability.md says.
Write what changes into CHANGELOG.md, under Added, Changed, Deprecated or Removed, and then
`UPDATE=1 pytest tests/packaging/test_promises.py` to list it as promised."""


def changes(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The words that are gone (-) or new (+) under each title, and calls in another order."""
    found = []
    for title in sorted({*before, *now}):
        old, new = before.get(title, "").split(), now.get(title, "").split()
        found += [f"- {title}: {word}" for word in old if word not in new]
        found += [f"+ {title}: {word}" for word in new if word not in old]
        if old != new and sorted(old) == sorted(new):
            found.append(f"- {title}: the order {' '.join(old)}")
    return found


def test_what_is_promised_stays() -> None:
    """Names and calls, commands, options, exit codes, keys, JSON and variables are as listed."""
    schemas = {file.name: json.loads(text) for file, text in docs_module("generate").schemas()}
    made = docs_module("promises").promises({n.partition(".")[0]: s for n, s in schemas.items()})
    if os.environ.get("UPDATE"):
        PROMISED.write_text("".join(f"{title}: {made[title]}\n" for title in made), "utf-8")
    lines = PROMISED.read_text(encoding="utf-8").splitlines()
    changed = changes(dict(line.split(": ", 1) for line in lines), made)
    assert changed == [], "\n".join([*changed, TODO])


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        ({"fit": "(x, y=)"}, []),
        ({}, ["- fit: (x,", "- fit: y=)"]),
        ({"fit": "(x, y=)", "new": "()"}, ["+ new: ()"]),
        ({"fit": "y=) (x,"}, ["- fit: the order (x, y=)"]),
    ],
)
def test_each_change_is_named(now: dict[str, str], expected: list[str]) -> None:
    """What is gone, new, or in another order; nothing where nothing changes."""
    assert changes({"fit": "(x, y=)"}, now) == expected


def test_the_tables_written_by_hand_are_complete() -> None:
    """Of the page: every variable, every exit code, every document; the others are made."""
    promises = docs_module("promises")
    rows = set(re.findall(r"^\| `(GPUCONF_\w+)` ", PAGE, re.MULTILINE))
    assert rows == promises.variables()
    listed = PROMISED.read_text(encoding="utf-8")
    codes = set(
        re.findall(r"\d+", " ".join(re.findall("^exit code.*: (.*)", listed, re.MULTILINE)))
    )
    assert codes == set(re.findall(r"\d+", " ".join(re.findall(r"^\| ([\d, ]+) \|", PAGE, re.M))))
    documents = {file.name.partition(".")[0] for file in (ROOT / "configs").glob("*.schema.json")}
    named = re.search(r"schema.json`: ([\w,\s]+)\.", PAGE)
    assert named is not None
    assert set(re.findall(r"\w+", named[1])) - {"and"} == documents - {"profile"}
