"""The pictures of the pages: those that are named exist, and show what the commands print now.

The two plots are compared with the pages only, whose figures other tests estimate or explain.
"""

from __future__ import annotations

import getpass
import re
from xml.etree import ElementTree

import pytest

from gpuconf.basics.units import MIB, sized
from gpuconf.commands.cli.demo import SPEC
from tests.commands.cli.commands import ROOT
from tests.documents.page_tools import docs_module

FOLDER = ROOT / "docs" / "pictures"
DRAW = docs_module("pictures.draw")
LABELS = docs_module("pictures.labels")
PLOTS = docs_module("pictures.plots")
TERMINAL = docs_module("pictures.terminal")
DOCTOR = docs_module("pictures.doctor")
PS = docs_module("pictures.ps")
CROWDED = docs_module("pictures.crowded_card")
TRANSCRIPTS = docs_module("transcripts")
PAGES = docs_module("fences").pages()
_NAMED = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
_LOADS = re.compile(r"@import|url\((?!#)|<image|<script|xlink:href=\"(?!#)")
_MOST_BYTES = 60_000


def _lines(name: str) -> list[str]:
    """The texts of a plot, a line for each height."""
    lines: list[str] = LABELS.texts_of((FOLDER / f"{name}.svg").read_text("utf-8"))
    return lines


def test_every_picture_is_on_a_page_and_drawn_by_the_script() -> None:
    """Every one that a page names exists and has words for those who do not see it."""
    shown = set()
    for page in PAGES:
        for words, target in _NAMED.findall(page.read_text("utf-8")):
            if not target.startswith("http"):
                assert len(words.split()) > 5, f"{page.name}: {target}"
                shown.add((page.parent / target).resolve())
    assert shown == {FOLDER / f"{name}.svg" for name in DRAW.PICTURES}
    assert shown == set(FOLDER.glob("*.svg"))


@pytest.mark.parametrize("name", DRAW.PICTURES)
def test_a_picture_stands_for_itself(name: str) -> None:
    """Small, with a title, readable on light and dark pages; it loads nothing."""
    svg = (FOLDER / f"{name}.svg").read_text("utf-8")
    assert len(svg) < _MOST_BYTES
    assert _LOADS.search(svg) is None
    root = ElementTree.fromstring(svg)
    title = root.find("{http://www.w3.org/2000/svg}title")
    assert title is not None
    assert len((title.text or "").split()) > 5
    assert 'fill="#161b22"' in svg or "@media (prefers-color-scheme: dark)" in svg
    assert str(ROOT) not in svg


def test_the_doctor_is_as_drawn() -> None:
    """What it finds on that GPU; packages and counts depend on the machine."""
    fresh = " ".join(TERMINAL.text_of(DOCTOR.output()).split())
    lines = _lines("doctor")
    first = lines.index(f"$ {DOCTOR.PROMPT}") + 1
    (last,) = [place for place, line in enumerate(lines) if "left free" in line]
    found = [" ".join(line.split()) for line in lines[first : last + 1]]
    assert len(found) > 8
    assert [line for line in found if line not in fresh] == []


@pytest.mark.slow
@pytest.mark.nightly  # tests/commands/cli/test_ps_command.py has what the command prints
def test_ps_is_as_drawn() -> None:
    """All of it but pids, times and the account."""
    prompt, *shown = [line for line in _lines("ps") if line != PS.PROMPT]
    assert prompt == f"$ {PS.PROMPT}"
    fresh = TERMINAL.text_of(PS.output()).replace(getpass.getuser(), "root").splitlines()
    assert TRANSCRIPTS.shows(shown, fresh), "\n".join([*shown, "now:", *fresh])


def test_the_page_has_the_text_of_ps() -> None:
    """Below the plot, for copying and searching, word for word."""
    fences = docs_module("fences").fences(ROOT / "docs" / "sharing.md")
    (shown,) = [each.lines for each in fences if each.lines[:1] == (f"$ {PS.PROMPT}",)]
    _title, *drawn = " ".join(_lines("ps")).split()
    assert " ".join(shown).split() == drawn[1:]


def test_the_estimate_is_that_of_its_page() -> None:
    """The heading is the first line of the page's transcript; what gpuconf estimates of that
    network now is ``check_the_worked_example_of_the_page`` of tests/commands/estimate."""
    shown = " ".join(_lines("estimate"))
    page = (ROOT / "docs" / "reference" / "estimate.md").read_text("utf-8")
    _, _, transcript = page.partition(f"$ gpuconf {DRAW.ESTIMATE}\n")
    heading = transcript.partition("\n")[0]
    assert heading.startswith("batch 2: ")
    assert heading in shown


def test_the_crowded_card_is_the_demos() -> None:
    """The parts of each bar are the whole GPU; limits and leases are what the plan says now."""
    words = " ".join(_lines("crowded-card"))
    limit, lease = CROWDED.planned(SPEC.total_bytes - SPEC.used_bytes)
    left = SPEC.total_bytes - SPEC.used_bytes - 2 * lease
    for size in (SPEC.total_bytes, SPEC.used_bytes, limit, lease, left):
        assert sized(size) in words
    (took,) = re.findall(r"first takes (\d+) MiB", words)
    (stays,) = re.findall(r"(\d+) MiB left .*first leases", words)
    assert SPEC.used_bytes + (int(took) + int(stays)) * MIB == SPEC.total_bytes


def test_a_plot_keeps_its_shape() -> None:
    """Lines stay within a tenth of a point, curves and texts as they are; colors get a variant."""
    svg = (
        '<?xml version="1.0"?>\n<svg width="9pt">\n <metadata>made today</metadata>\n'
        ' <path d="M 1.04 2.0 \nL 1.04 3.123 \nL 5 3.123 \nL 6 7 \nz\n" style="fill: #ffffff"/>\n'
        ' <path d="M 0 3 C 1.2345 3 2 2 3 0 z" style="stroke: #c1121f"/>\n'
        ' <text y="3"> limit</text>\n</svg>\n'
    )
    made = PLOTS.for_both(svg, "a plot & more")
    assert made.startswith('<svg role="img" width="9pt">\n<title>a plot &amp; more</title>\n')
    assert 'd="M1.0 2.0V3.1H5.0L6.0 7.0z"' in made
    assert 'd="M 0 3 C 1.2345 3 2 2 3 0 z"' in made
    assert '[style*="fill: #ffffff"] { fill: ' in made
    assert '[style*="stroke: #c1121f"] { stroke: ' in made
    assert "made today" not in made
    assert '<text y="3"> limit</text>' in made
