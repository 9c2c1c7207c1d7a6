"""The made part of the pages of `gpuconf explain`'s causes: the lines of each, what explains it."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.rules import Rule, all_rules

MARK = "<!-- From here on made by `make generated` from gpuconf/support/failures. -->\n"
_LEVELS = {
    "error": "fails",
    "ladder": "retries with less",
    "fallback": "continues on the CPU",
    "warning": "continues",
    "big-allocation": "fails if it is the last line",
    "hint": "decides nothing alone",
}


def heading(cause: str) -> str:
    """The first line of a cause's page."""
    title = CAUSES[cause].title
    return f"# {title}" if title.startswith("cu") else f"# {title[0].upper()}{title[1:]}"


def made_part(cause: str) -> str:
    """The end of a cause's page: its rules, and the causes that come before it."""
    rules = [rule for rule in all_rules() if rule.cause == cause]
    return "\n".join([*_table(rules), *_earlier(cause)]).rstrip() + "\n"


def index_part() -> str:
    """The table of all causes, in the order in which one of two is named."""
    rows = [f"| [{heading(cause)[2:]}]({cause}.md) | `{cause}` |" for cause in CAUSES]
    return "\n".join(["| cause | in reports and JSON |", "|---|---|", *rows]) + "\n"


def _table(rules: list[Rule]) -> Iterator[str]:
    if not rules:
        return
    yield from ("## All lines", "")
    yield "| [phrases](index.md#how-a-line-is-recognized) | what the line means | the run |"
    yield "|---|---|---|"
    for rule in rules:
        phrases = ", ".join(f"`{each.replace('|', chr(92) + '|')}`" for each in rule.says)
        yield f"| {phrases} | {rule.means} | {_LEVELS[rule.level]} |"
    yield ""


def _earlier(cause: str) -> Iterator[str]:
    explaining = [each for each, other in CAUSES.items() if cause in other.explains]
    if explaining:
        links = ", ".join(f"[`{each}`]({each}.md)" for each in explaining)
        also = "If the log also shows one of these causes, this is only a consequence of it"
        yield f"{also}: {links}."
