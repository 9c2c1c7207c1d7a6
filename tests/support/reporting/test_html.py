"""HTML for notebooks: escaped whatever comes, styled by classes that have rules, legible."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.support.reporting.html import (
    COLORS,
    Markup,
    folded,
    fragment,
    line_markup,
    markup_of,
    preformatted,
    stylesheet,
    tag,
)
from gpuconf.support.reporting.lines import Line, line_of
from tests.support.reporting.outline import Outline, check_harmless

HARM = "<script>alert(1)</script>\x1b[2J\u202e\udcff&\"'"
MADE_OF_TEXT = (
    lambda text: tag("td", text),
    lambda text: folded(text, tag("p", text)),
    lambda text: preformatted([Line(text, "red"), line_of((text, "bold"), (text, ""))]),
)


@pytest.mark.parametrize("make", MADE_OF_TEXT)
def test_text_is_never_markup(make) -> None:  # type: ignore[no-untyped-def]
    """Tags are escaped, and what controls a terminal or the direction of text is visible."""
    html = fragment(make(HARM))
    check_harmless(html)
    assert "&lt;script&gt;" in html
    for character in ("\x1b", "\u202e", "\udcff"):
        assert character not in html
    assert "\\x1b" in html


@given(st.text(), st.text())
def test_any_text_comes_back(first: str, second: str) -> None:
    """Whatever the text: the markup is whole, and a browser shows the printable part of it."""
    html = str(preformatted([line_of((first, "bold"), (second, "red"))]))
    outline = Outline(html)
    assert outline.open == []
    assert outline.tags <= {"pre", "span"}
    shown = "".join(outline.words)
    if first.isprintable() and second.isprintable():
        assert shown == first + second


def test_markup_is_taken_once() -> None:
    """What was escaped is not escaped again."""
    assert markup_of(markup_of("a<b")) == "a&lt;b"
    assert tag("b", Markup("<i>x</i>"), "<") == "<b><i>x</i>&lt;</b>"


def test_spans_keep_their_places() -> None:
    """An escape is longer than its character, and moves no style."""
    line = line_of(("<a>", "bold"), (" & ", ""), ("b\x1b", "red"))
    assert line_markup(line) == (
        '<span class="bold">&lt;a&gt;</span> &amp; <span class="red">b\\x1b</span>'
    )


def test_every_class_has_a_rule() -> None:
    """A style without a rule would be shown as plain text, and nobody would notice."""
    sheet = stylesheet()
    for name in (*COLORS, "bold", "dim", "underline"):
        assert f".{name}" in sheet
    # Nothing outside is restyled: every rule begins with our own class.
    for selector in re.findall(r"^([^{\n]+)\{", sheet, re.MULTILINE):
        assert all(each.strip().startswith(".gpuconf") for each in selector.split(","))


def _luminance(color: tuple[float, float, float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(color: str) -> tuple[float, float, float]:
    red, green, blue = (int(color[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue


def _contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("paper", "ink"),
    [("#ffffff", "#212121"), ("#111111", "#e0e0e0"), ("#1e1e1e", "#cccccc")],
    ids=["light", "Jupyter's dark", "Visual Studio Code's dark"],
)
@pytest.mark.parametrize("name", COLORS)
def test_colors_are_legible(name: str, paper: str, ink: str) -> None:
    """At least 4.5 to 1 on light and dark paper, mixed with the ink as the sheet says (WCAG AA)."""
    found = re.search(rf"color-mix\(in srgb,{COLORS[name]} (\d+)%,currentColor\)", stylesheet())
    assert found is not None
    share = int(found[1]) / 100
    mixed = [
        share * a + (1 - share) * b for a, b in zip(_rgb(COLORS[name]), _rgb(ink), strict=True)
    ]
    assert _contrast((mixed[0], mixed[1], mixed[2]), _rgb(paper)) >= 4.5
