"""Pages that are made from the code: keys, the commands on the site, and a page for each cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuconf.commands.explain import explain
from gpuconf.support.command_line import COMMANDS
from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.rules import all_rules
from tests.commands.cli.commands import ROOT, run_commands
from tests.documents.page_tools import docs_module

MADE = {page.relative_to(ROOT): text for page, text in docs_module("generate").made_pages()}
HEADING = docs_module("cause_pages").heading


@pytest.mark.parametrize("page", MADE, ids=str)
def test_the_page_is_as_made(page: Path) -> None:
    """After a change of a command, a rule or a cause: `make generated`."""
    assert (ROOT / page).exists(), "`make generated` begins it"
    assert (ROOT / page).read_text(encoding="utf-8") == MADE[page]


def test_every_cause_has_a_page() -> None:
    """Written, with its title above; no page is of a cause that is gone."""
    pages = {page.stem: page for page in (ROOT / "docs" / "causes").glob("*.md")}
    assert set(pages) == {*CAUSES, "index"}, "`make generated` begins the page of a new cause"
    for cause in CAUSES:
        text = pages[cause].read_text("utf-8")
        assert text.startswith(f"{HEADING(cause)}\n"), cause
        assert f"In reports and JSON: `{cause}`." in text, f"docs/causes/{cause}.md is only begun"


def test_the_lines_that_a_page_shows_are_its_causes() -> None:
    """`gpuconf explain` of what "What you see" shows; a dump's figures alone mean fragmentation."""
    shown = {}
    for cause in CAUSES:
        text = (ROOT / "docs" / "causes" / f"{cause}.md").read_text("utf-8")
        lines = text.partition("\n## What you see\n\n```\n")[2].partition("\n```\n")[0]
        assert lines, cause
        shown[cause] = explain(lines).cause
    expected = {cause: cause for cause in CAUSES} | {"fragmentation": "oom-device-tensor"}
    assert shown == expected


def test_a_report_ends_with_the_command_that_shows_the_page(tmp_path: Path) -> None:
    """And the command does, without the marks of those who write pages."""
    report = str(explain("OOM when allocating tensor with shape[9,9] and type float on GPU:0"))
    last = report.splitlines()[-1]
    assert last == "about this cause: gpuconf docs causes/oom-device-tensor"
    (shown,) = run_commands(tmp_path, last.partition(": gpuconf ")[2].split())
    assert shown.out.startswith(f"{HEADING('oom-device-tensor')}\n")
    assert "<!-- " not in shown.out


def test_every_line_is_on_its_page() -> None:
    """Every phrase of a rule stands on the page of the rule's cause."""
    with_a_page = [rule for rule in all_rules() if rule.cause is not None]
    assert len(with_a_page) > 80
    for rule in with_a_page:
        assert rule.means in MADE[Path("docs", "causes", f"{rule.cause}.md")], rule.id


def test_every_command_is_in_the_reference() -> None:
    """With its options: `--json` of doctor for one."""
    text = docs_module("command_pages").made_part()
    assert [name for name in COMMANDS if f"\n## `gpuconf {name}`\n" not in text] == []
    doctor = text.partition("## `gpuconf doctor`")[2].partition("\n## ")[0]
    assert "| `--json` |" in doctor
