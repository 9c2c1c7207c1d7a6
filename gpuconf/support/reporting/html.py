"""HTML for reports, in notebooks and the doctor's page: escaped, for light and dark themes.

Content may come from anywhere: names of processes, cards and files, lines of logs.  So a plain
``str`` is always escaped, and only `Markup`, which `tag` returns, is used unescaped.  The HTML
loads nothing and runs no scripts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import pairwise
from typing import NamedTuple

from gpuconf.basics.terminal import printable
from gpuconf.basics.units import sized
from gpuconf.support.reporting.lines import Line, Table

# Each colour is mixed with that of the surrounding text, so it is darker in light themes and
# lighter in dark ones.  The plain value is for browsers before 2023.
COLOURS = {
    "red": "#d03a34",
    "green": "#2f9450",
    "yellow": "#b07a10",
    "blue": "#3d8fb5",
    "cyan": "#2b8ca6",
    "magenta": "#b05cc0",
}
# The fill of each part of a bar: solid if in use, transparent if free.
FILLS = {
    "others": "#8a939a",
    "ours": "#c98a1b",
    "leased": "#3d8fb5",
    "context": "#3d8fb580",
    "room": "transparent",
}
BARS = ("others", "ours", "leased", "room")  # in use by others, in use by us, leased, free
_SHEET = """\
.gpuconf{font-size:.93em;line-height:1.45;max-width:62rem}
.gpuconf p{margin:.35em 0}
.gpuconf .bold,.gpuconf th{font-weight:600}
.gpuconf .underline{text-decoration:underline}
.gpuconf .dim{opacity:.72}
.gpuconf .pale{opacity:.3}
.gpuconf pre{margin:.35em 0;padding:0;border:0;background:none;color:inherit;font-size:.93em;\
font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap;\
overflow-wrap:anywhere}
.gpuconf .paste{padding:.3em .6em;border-left:3px solid #3d8fb5}
.gpuconf table{border-collapse:collapse;margin:.35em 0;font-size:.96em}
.gpuconf table td,.gpuconf table th{padding:.12em .9em .12em 0;text-align:left!important;\
vertical-align:top;border:0}
.gpuconf table .figure{text-align:right!important;white-space:nowrap;\
font-variant-numeric:tabular-nums}
.gpuconf .bar{display:flex;height:1em;max-width:36rem;margin:.3em 0;border:1px solid #8a939a}
.gpuconf .key{display:inline-block;width:.8em;height:.8em;margin-right:.35em;\
border:1px solid #8a939a}
.gpuconf .legend span{margin-right:1.1em}
.gpuconf summary{cursor:pointer}
"""


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


class BarPart(NamedTuple):
    """A part of a bar: ``kind`` is a key of `FILLS` and selects the fill."""

    words: str
    size_bytes: int
    kind: str


def markup_of(text: str) -> Markup:
    """``text`` as HTML, escaped; control characters are shown as escape sequences."""
    if isinstance(text, Markup):
        return text
    return Markup(escape(printable(text, keep="\n\t")))


def tag(name: str, *children: str, kind: str = "", style: str = "") -> Markup:
    """An element with its children; ``kind`` is its class, ``style`` never contains user text."""
    attributes = "".join(
        f' {key}="{escape(value)}"' for key, value in (("class", kind), ("style", style)) if value
    )
    return Markup(f"<{name}{attributes}>{''.join(map(markup_of, children))}</{name}>")


def stylesheet() -> str:
    """The CSS rules for this module's HTML; they apply only inside an element of class gpuconf."""
    mixed = "".join(
        f".gpuconf .{name}{{color:{colour};color:color-mix(in srgb,{colour} 68%,currentColor)}}\n"
        for name, colour in COLOURS.items()
    )
    filled = "".join(f".gpuconf .{name}{{background:{fill}}}\n" for name, fill in FILLS.items())
    return _SHEET + mixed + filled


def fragment(*children: str) -> str:
    """The HTML of a value in a notebook, with its own style sheet."""
    return str(tag("div", tag("style", Markup(stylesheet())), *children, kind="gpuconf"))


def paragraph(text: str, style: str = "") -> Markup:
    """A line of text, in a style such as "bold red"."""
    return tag("p", text, kind=style)


def line_markup(line: Line) -> Markup:
    """A line in its styles; the words of a style are its class names."""
    text = line.text
    edges = {0, len(text), *(min(end, len(text)) for span in line.spans for end in span[:2])}
    pieces = []
    for first, end in pairwise(sorted(edges)):
        styles = [style for begin, last, style in line.spans if begin <= first and end <= last]
        piece = markup_of(text[first:end])
        pieces.append(tag("span", piece, kind=" ".join(styles)) if styles else piece)
    joined = Markup("".join(pieces))
    return tag("span", joined, kind=line.style) if line.style else joined


def preformatted(lines: Iterable[Line], kind: str = "") -> Markup:
    """Preformatted lines, wrapped only if the window is too narrow."""
    return tag("pre", Markup("\n".join(map(line_markup, lines))), kind=kind)


def to_paste(text: str) -> Markup:
    """Code or commands."""
    return tag("pre", text, kind="paste")


def table_markup(table: Table) -> Markup:
    """A table; numbers are aligned right."""
    kinds = ["figure" if table.is_of_figures(place) else "" for place in range(len(table.columns))]
    head = [tag("th", name, kind=kind) for name, kind in zip(table.columns, kinds, strict=True)]
    title = [paragraph(table.title, "bold")] if table.title else []
    rows = [
        tag("tr", *(tag("td", cell, kind=kind) for cell, kind in zip(row, kinds, strict=True)))
        for row in table.rows
    ]
    heads = [tag("tr", *head)] if any(table.columns) else []
    return Markup("".join([*title, tag("table", *heads, *rows)]))


def folded(summary: str, *children: str) -> Markup:
    """Content shown on a click; empty if there is none."""
    return tag("details", tag("summary", summary), *children) if any(children) else Markup()


def bar(parts: Sequence[BarPart]) -> Markup:
    """Memory as a bar with a legend of its parts; empty parts are omitted."""
    shown = [part for part in parts if part.size_bytes > 0]
    return Markup(_drawn_bar(shown) + tag("p", *map(_legend, shown), kind="legend"))


def _drawn_bar(parts: Sequence[BarPart]) -> Markup:
    total = sum(part.size_bytes for part in parts) or 1
    return tag("div", *_pieces(parts, total), kind="bar")


def _pieces(parts: Sequence[BarPart], total: int) -> Iterator[Markup]:
    for part in parts:
        share = 100 * part.size_bytes / total
        yield tag("div", kind=part.kind, style=f"width:{share:.2f}%")


def _legend(part: BarPart) -> Markup:
    key = tag("i", kind=f"key {part.kind}")
    return tag("span", key, f"{part.words} {sized(part.size_bytes)}")
