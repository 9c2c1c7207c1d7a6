"""HTML for reports, in notebooks and the doctor's page: escaped, for light and dark themes.

Content may come from anywhere: names of processes, GPUs and files, and log lines.  So a plain
``str`` is always escaped, and only `Markup`, which `tag` returns, is used unescaped.  The HTML
loads nothing and runs no scripts.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from itertools import pairwise

from gpuconf.basics.terminal import printable
from gpuconf.support.reporting.lines import Line

# Each color is mixed with that of the surrounding text, so it is darker in light themes and
# lighter in dark ones.  The plain value is for browsers before 2023.
COLORS = {
    "red": "#d03a34",
    "green": "#2f9450",
    "yellow": "#b07a10",
    "blue": "#3d8fb5",
    "cyan": "#2b8ca6",
    "magenta": "#b05cc0",
}
_SHEET = """\
.gpuconf{font-size:.93em;line-height:1.45;max-width:62rem}
.gpuconf .bold{font-weight:600}
.gpuconf .underline{text-decoration:underline}
.gpuconf .dim{opacity:.72}
.gpuconf .pale{opacity:.3}
.gpuconf pre{margin:.35em 0;padding:0;border:0;background:none;color:inherit;font-size:.93em;\
font-family:ui-monospace,Menlo,Consolas,"DejaVu Sans Mono",monospace;white-space:pre-wrap;\
overflow-wrap:anywhere}
.gpuconf summary{cursor:pointer}
"""


class Markup(str):
    """Text that is already HTML."""

    __slots__ = ()


def markup_of(text: str) -> Markup:
    """``text`` as HTML, escaped; control characters are shown as escape sequences."""
    if isinstance(text, Markup):
        return text
    return Markup(escape(printable(text, keep="\n\t")))


def tag(name: str, *children: str, kind: str = "") -> Markup:
    """An element with its children; ``kind`` is its class."""
    attributes = f' class="{escape(kind)}"' if kind else ""
    return Markup(f"<{name}{attributes}>{''.join(map(markup_of, children))}</{name}>")


def stylesheet() -> str:
    """The CSS rules for this module's HTML; they apply only inside an element of class gpuconf."""
    mixed = "".join(
        f".gpuconf .{name}{{color:{color};color:color-mix(in srgb,{color} 68%,currentColor)}}\n"
        for name, color in COLORS.items()
    )
    return _SHEET + mixed


def fragment(*children: str) -> str:
    """The HTML of a value in a notebook, with its own style sheet."""
    return str(tag("div", tag("style", Markup(stylesheet())), *children, kind="gpuconf"))


def line_markup(line: Line) -> Markup:
    """A line with its styles; the words in each style become class names."""
    text = line.text
    edges = {0, len(text), *(min(end, len(text)) for span in line.spans for end in span[:2])}
    pieces = []
    for first, end in pairwise(sorted(edges)):
        styles = [style for begin, last, style in line.spans if begin <= first and end <= last]
        piece = markup_of(text[first:end])
        pieces.append(tag("span", piece, kind=" ".join(styles)) if styles else piece)
    joined = Markup("".join(pieces))
    return tag("span", joined, kind=line.style) if line.style else joined


def preformatted(lines: Iterable[Line]) -> Markup:
    """Preformatted lines, wrapped only if the window is too narrow."""
    return tag("pre", Markup("\n".join(map(line_markup, lines))))


def folded(summary: str, *children: str) -> Markup:
    """Content shown on click; empty if there is none."""
    return tag("details", tag("summary", summary), *children) if any(children) else Markup()
