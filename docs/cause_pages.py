"""The made part of the pages of `gpuconf explain`'s causes: the lines of each, its relations."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.rules import Rule, all_rules

MARK = "<!-- From here on made by `make generated` from gpuconf/support/failures. -->\n"
_LEVELS = {
    "error": "the run failed, unless its log continues",
    "ladder": "tried again with less",
    "fallback": "continues on the CPU",
    "warning": "continues",
    "big-allocation": "fatal only as the log's last word",
    "hint": "decides nothing alone",
}


def heading(cause: str) -> str:
    """The first line of a cause's page."""
    title = CAUSES[cause].title
    return f"# {title}" if title.startswith("cu") else f"# {title[0].upper()}{title[1:]}"


def made_part(cause: str) -> str:
    """The end of a cause's page: its rules, and its place among the other causes."""
    rules = [rule for rule in all_rules() if rule.cause == cause]
    return "\n".join([*_table(rules), *_relations(cause)]).rstrip() + "\n"


def index_part() -> str:
    """The table of all causes, in the order in which one of two is named."""
    rows = [f"| [{heading(cause)[2:]}]({cause}.md) | `{cause}` |" for cause in CAUSES]
    return "\n".join(["| cause | in reports and JSON |", "|---|---|", *rows]) + "\n"


def _table(rules: list[Rule]) -> Iterator[str]:
    if not rules:
        return
    yield from ("## All lines", "")
    yield "A line with one of these phrases. Numbers, case and punctuation do not count."
    yield from ("", "| phrases | what the line means | the run |", "|---|---|---|")
    for rule in rules:
        phrases = ", ".join(f"`{each.replace('|', chr(92) + '|')}`" for each in rule.says)
        yield f"| {phrases} | {rule.means} | {_LEVELS[rule.level]} |"
    yield ""


def _relations(cause: str) -> Iterator[str]:
    explained = [each for each in CAUSES if each in CAUSES[cause].explains]
    explaining = [each for each, other in CAUSES.items() if cause in other.explains]
    if explained or explaining:
        yield from ("## Together with other causes", "")
    if explained:
        yield f"If a log shows these too, they are consequences of this one: {_links(explained)}."
        yield ""
    if explaining:
        yield f"This one is a consequence if the log also shows: {_links(explaining)}."


def _links(causes: list[str]) -> str:
    return ", ".join(f"[{CAUSES[cause].title}]({cause}.md)" for cause in causes)
