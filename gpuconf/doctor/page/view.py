"""A report as the values that the page's template shows, and the page itself."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from gpuconf import __version__
from gpuconf.doctor.finding import Finding
from gpuconf.doctor.report import Card, Holder, MemoryBar, Report
from gpuconf.units import mib

_TEMPLATE = "page.html.j2"
_WORDS = {
    "fail": "failed",
    "warn": "warning",
    "crash": "broke down",
    "ok": "fine",
    "skip": "skipped",
}
_CSS_CLASSES = ("others", "ours", "may-take", "kept-free")
_CODE_INDENT = "    "


class Part(NamedTuple):
    """A stretch of a memory bar; ``share`` is of the card, in percent."""

    kind: str
    words: str
    size: str
    share: str


class Detail(NamedTuple):
    """A line of a finding's detail; code is shown as such."""

    text: str
    is_code: bool


class CardView(NamedTuple):
    """A card, or a MIG instance, in words."""

    title: str
    facts: tuple[tuple[str, str], ...]
    bar: tuple[Part, ...]
    bar_in_words: str
    arithmetic: tuple[str, ...]
    holders: tuple[tuple[str, ...], ...] | None
    instances: tuple[CardView, ...]


def page_text(report: Report) -> str:
    """The whole page as HTML; every text of the report is escaped.  Needs Jinja2."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    template = environment.from_string(
        files("gpuconf.doctor.page").joinpath(_TEMPLATE).read_text(encoding="utf-8")
    )
    return template.render(
        report=report,
        headline=headline(report),
        worst=report.problems[0].status if report.problems else "ok",
        counts=[(status, _WORDS[status], report.counts[status]) for status in ("ok", "skip")],
        words=_WORDS,
        cards=[_card(card, report, str(card.index)) for card in report.cards],
        details=_details,
        gpuconf_version=__version__,
    )


def headline(report: Report) -> str:
    """What came out, in a few words."""
    counts = report.counts
    told = [
        f"{counts[status]} {word if counts[status] == 1 else words}"
        for status, word, words in (
            ("fail", "problem", "problems"),
            ("warn", "warning", "warnings"),
            ("crash", "check broke down", "checks broke down"),
        )
        if counts[status]
    ]
    return ", ".join(told) or report.all_clear.capitalize()


def _harmless(value: object) -> object:
    """Text without characters that nobody sees but a page or a terminal obeys."""
    if type(value) is not str:
        return value
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in value)


def _details(finding: Finding) -> list[Detail]:
    return [Detail(line.strip(), line.startswith(_CODE_INDENT)) for line in finding.detail if line]


def _card(card: Card, report: Report, number: str) -> CardView:
    parts = _parts(card.bar, report) if card.bar else ()
    return CardView(
        title=f"GPU {number}: {card.name or 'name unknown'}",
        facts=tuple(_facts(card)),
        bar=parts,
        bar_in_words="; ".join(f"{part.words}: {part.size}" for part in parts),
        arithmetic=card.arithmetic,
        holders=None if card.holders is None else tuple(map(_holder, card.holders)),
        instances=tuple(
            _card(each, report, f"{number}.{place}") for place, each in enumerate(card.instances)
        ),
    )


def _facts(card: Card) -> list[tuple[str, str]]:
    """What is known of a card beside its memory."""
    capability = card.compute_capability
    visible = {True: "yes", False: "no, a program does not see it", None: None}[card.is_visible]
    facts = (
        ("memory", None if card.total_bytes is None else mib(card.total_bytes)),
        ("free now", None if card.free_bytes is None else mib(card.free_bytes)),
        ("limit", None if card.limit_bytes is None else mib(card.limit_bytes)),
        ("visible", visible),
        ("compute capability", None if capability is None else "{}.{}".format(*capability)),
        ("PCI", card.pci_bus_id),
        ("UUID", card.uuid),
        ("remarks", "; ".join(card.remarks) or None),
    )
    return [(name, text) for name, text in facts if text is not None]


def _parts(bar: MemoryBar, report: Report) -> tuple[Part, ...]:
    meanings = MemoryBar.meanings(report.profile.name if report.profile else "the profile")
    total = max(bar.total_bytes, 1)
    return tuple(
        Part(kind, words, mib(size), f"{100 * size / total:.2f}")
        for kind, words, size in zip(_CSS_CLASSES, meanings, bar, strict=True)
    )


def _holder(holder: Holder) -> tuple[str, ...]:
    used = None if holder.used_bytes is None else mib(holder.used_bytes)
    since = holder.since[:16].replace("T", " ") if holder.since else None
    return tuple(
        text or "unknown"
        for text in (str(holder.pid), holder.name, holder.user, used, since, holder.kind)
    )
