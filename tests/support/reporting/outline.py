"""What stands in a piece of HTML or in a plot, and that nothing of HTML runs or loads."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

_VOID = {"meta", "br", "img", "link", "input", "hr"}


class Outline(HTMLParser):
    """The tags of a page, checked for balance, its text, and what its attributes point to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        """All that a person reads, in one line."""
        return " ".join(" ".join(self.words).split())


def texts_of(picture: Path) -> list[str]:
    """The texts in an SVG; matplotlib writes each as a comment next to its glyphs."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"), parser)
    assert root.tag.endswith("svg")
    # The tag of a comment is the function that makes one.
    return [str(each.text).strip() for each in root.iter() if callable(each.tag)]


def check_harmless(html: str) -> None:
    """Assert that every tag is closed, and that no script, link, picture or handler is in it."""
    outline = Outline(html)
    assert outline.open == []
    assert not outline.tags & {"script", "img", "link", "iframe", "object", "form", "a", "svg"}
    for name, _ in outline.attributes:
        assert name not in ("src", "href", "srcset", "action")
        assert not name.startswith("on")
    style = html[: html.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
