"""HTML for notebooks: escaped whatever comes, styled by classes that have rules, legible."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.support.reporting.html import (
    COLOURS,
    FILLS,
    BarPart,
    Markup,
    bar,
    folded,
    fragment,
    line_markup,
    markup_of,
    paragraph,
    preformatted,
    stylesheet,
    table_markup,
    tag,
    to_paste,
)
from gpuconf.support.reporting.lines import Line, Table, line_of
from tests.support.reporting.outline import Outline, check_harmless

HARM = "<script>alert(1)</script>\x1b[2J\u202e\udcff&\"'"
MADE_OF_TEXT = (
    paragraph,
    to_paste,
    lambda text: tag("td", text),
    lambda text: folded(text, paragraph(text)),
    lambda text: preformatted([Line(text, "red"), line_of((text, "bold"), (text, ""))]),
    lambda text: table_markup(Table((text,), [(text,)], text)),
    lambda text: bar([BarPart(text, 7, "ours")]),
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
    for name in (*COLOURS, *FILLS, "bold", "dim", "underline", "paste", "figure", "bar", "key"):
        assert f".{name}" in sheet
    # Nothing outside is restyled: every rule begins with our own class.
    for selector in re.findall(r"^([^{\n]+)\{", sheet, re.MULTILINE):
        assert all(each.strip().startswith(".gpuconf") for each in selector.split(","))


def test_figures_are_aligned() -> None:
    """The cells of a column of numbers have the class for it, those of words have none."""
    table = str(table_markup(Table(("program", "MiB"), [("train.py", "12")])))
    assert '<td>train.py</td><td class="figure">12</td>' in table


def test_a_bar_is_as_long_as_its_parts() -> None:
    """Their shares add up to the whole; a part of nothing has neither a piece nor a word."""
    html = bar([BarPart("a", 1, "others"), BarPart("none", 0, "ours"), BarPart("b", 3, "room")])
    assert re.findall(r"width:([\d.]+)%", html) == ["25.00", "75.00"]
    assert "none" not in html
    assert "a 1 B" in html


def _luminance(colour: tuple[float, float, float]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue


def _contrast(one: tuple[float, float, float], other: tuple[float, float, float]) -> float:
    light, dark = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(
    ("paper", "ink"),
    [("#ffffff", "#212121"), ("#111111", "#e0e0e0"), ("#1e1e1e", "#cccccc")],
    ids=["light", "Jupyter's dark", "Visual Studio Code's dark"],
)
@pytest.mark.parametrize("name", COLOURS)
def test_colours_are_legible(name: str, paper: str, ink: str) -> None:
    """At least 4.5 to 1 on light and dark paper, mixed with the ink as the sheet says (WCAG AA)."""
    found = re.search(rf"color-mix\(in srgb,{COLOURS[name]} (\d+)%,currentColor\)", stylesheet())
    assert found is not None
    share = int(found[1]) / 100
    mixed = [
        share * a + (1 - share) * b for a, b in zip(_rgb(COLOURS[name]), _rgb(ink), strict=True)
    ]
    assert _contrast((mixed[0], mixed[1], mixed[2]), _rgb(paper)) >= 4.5
