"""What every SVG picture has: a title for those who do not see it, and its texts as lines."""

from __future__ import annotations

import re
from collections import defaultdict
from html import escape
from xml.etree import ElementTree

_HEAD = re.compile(r"^.*?<svg\b([^>]*)>", re.DOTALL)
_TEXT = "{http://www.w3.org/2000/svg}text"


def labeled(svg: str, about: str) -> str:
    """``svg`` with ``about`` as its title, and without a declaration before it."""
    return _HEAD.sub(
        lambda head: f'<svg role="img"{head[1]}>\n<title>{escape(about)}</title>', svg, count=1
    )


def texts_of(svg: str) -> list[str]:
    """The texts of a plot from above to below; those at one height are one line."""
    lines: dict[str, list[str]] = defaultdict(list)
    for place, element in enumerate(ElementTree.fromstring(svg).iter(_TEXT)):
        height = element.get("y", f"element {place}")
        lines[height].append("".join(element.itertext()).replace("\xa0", " "))
    return ["".join(parts).strip() for parts in lines.values()]
