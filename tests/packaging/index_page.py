"""The page of a package on an index: its description, rendered as the index does."""

from __future__ import annotations

import re
from email import message_from_string

_ADDRESS = re.compile(r'(?:href|src)="([^"]*)"')
_ID = re.compile(r'id="([^"]*)"')


def dead_links(metadata: str) -> list[str]:
    """The links and images of a rendered description that lead nowhere on an index.

    Only absolute addresses and the page's own headings do; ``metadata`` is a wheel's METADATA.
    """
    from readme_renderer import markdown

    message = message_from_string(metadata)
    assert message["Description-Content-Type"].startswith("text/markdown"), message.keys()
    rendered = markdown.render(message.get_payload(), variant="GFM")
    assert rendered, "the description cannot be rendered"
    return dead_addresses(rendered)


def dead_addresses(html: str) -> list[str]:
    """The addresses in a page that are neither absolute nor one of its own places."""
    places = {f"#{name}" for name in _ID.findall(html)}
    found = dict.fromkeys(_ADDRESS.findall(html))
    return [each for each in found if not each.startswith("https://") and each not in places]
