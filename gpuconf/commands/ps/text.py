"""Holdings as lines: cards as bars, who holds memory, who waits, what is unknown.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from gpuconf.basics.units import sized
from gpuconf.commands.ps.document import (
    CardHoldings,
    Holding,
    Holdings,
    UserHoldings,
    WaitingProcess,
)
from gpuconf.support.reporting.columns import Column, column_lines
from gpuconf.support.reporting.lines import Line, broken
from gpuconf.support.reporting.memory_bars import BarLayout, BarRow, bar_lines

_PARTS = ("others", "yours", "leased", "free")
MEANINGS = ("others", "yours", "leased, not taken yet", "free")
NOBODY = "no process holds memory or a lease"
_OVERHEAD_BYTES = 512 << 20  # memory that a driver may use without a process
_UNKNOWN, _NONE = "unknown", "-"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ELSEWHERE = "* in another pid namespace, such as a container's, where the number counts"
_UNSAID = (
    "memory in use unknown (not reported under WSL2 or in containers), so the whole reservation "
    "counts"
)
_ESTIMATED = (
    "~ estimated from how the GPU's use has grown: the driver does not report it (WSL2, containers)"
)
_ALL_USERS = "`gpuconf ps --all-users` lists each process of other users"


def lines_of(holdings: Holdings, layout: BarLayout) -> list[Line]:
    """Return the whole report."""
    blocks: list[Iterable[Line]] = [
        problem_lines(holdings),
        bar_lines(list(map(bar_row, holdings.cards)), _PARTS, MEANINGS, layout),
        _processes(holdings, layout.width),
        _line(holdings, layout.width),
        remark_lines(holdings),
    ]
    lines: list[Line] = []
    for block in map(list, blocks):
        if lines and block:
            lines.append(Line())
        lines += block
    return list(broken(lines, layout.width))


def problem_lines(holdings: Holdings) -> Iterator[Line]:
    """Explain why there is nothing to show."""
    if holdings.problem is not None:
        yield Line(holdings.problem, hang=0)
    elif not holdings.cards:
        yield Line("no NVIDIA GPU here", hang=0)


def bar_row(card: CardHoldings) -> BarRow:
    """Build a card's row: its name, its memory in parts, and what is unknown."""
    name = (card.name or card.uuid or "(no name)").removeprefix("NVIDIA ")
    if card.mig_ids is not None and " MIG " in name:  # the part that distinguishes it
        name = f"MIG {name.partition(' MIG ')[2]}"
    remarks = []
    if card.index is None:
        remarks.append("NVML does not list this card")
    elif card.bar is None:
        remarks.append("memory unknown")
    if card.index is not None and not card.lists_processes:
        remarks.append("the driver does not say which processes hold memory")
    return BarRow(card.label, name, card.bar, ("; ".join(remarks),) if remarks else ())


class _Row(NamedTuple):
    """A row of the table of processes."""

    gpu: str
    pid: str
    user: str
    program: str
    profile: str
    lease: str
    used: str
    since: str
    style: str = ""


def _processes(holdings: Holdings, width: int | None) -> Iterable[Line]:
    columns, styles = process_columns(holdings)
    if not columns:
        return [Line(nobody_text(holdings), hang=0)] if holdings.cards else []
    return column_lines(columns, width, styles)


def process_columns(holdings: Holdings) -> tuple[list[Column], list[str]]:
    """Return the table of processes and the style of each row; no columns if it is empty."""
    today = holdings.made_at[:10]
    rows = [
        row
        for card in holdings.cards
        for row in (
            *(_process(each, card, today) for each in card.processes),
            *(_user(each, card) for each in card.others),
        )
    ]
    if not rows:
        return [], []
    columns = [
        Column("GPU", tuple(row.gpu for row in rows)),
        Column("PID", tuple(row.pid for row in rows), is_right=True),
        Column("USER", tuple(row.user for row in rows), shortest=8),
        Column("PROGRAM", tuple(row.program for row in rows), shortest=12),
        Column("PROFILE", tuple(row.profile for row in rows), shortest=9, rank=2),
        Column("RESERVED", tuple(row.lease for row in rows), is_right=True),
        Column("IN USE", tuple(row.used for row in rows), is_right=True),
        Column("SINCE", tuple(row.since for row in rows), rank=1),
    ]
    return columns, [row.style for row in rows]


def nobody_text(holdings: Holdings) -> str:
    """Return the text that replaces an empty table of processes."""
    taken = [card.unlisted_bytes or 0 for card in holdings.cards]
    if not any(each > _OVERHEAD_BYTES for each in taken):
        return NOBODY
    return (
        f"no leases; the driver lists no process, but {sized(sum(taken))} are in use: by a "
        "display, or by programs in another container or virtual machine"
    )


def _process(each: Holding, card: CardHoldings, today: str) -> _Row:
    return _Row(
        card.label,
        _pid(each.pid, is_elsewhere=each.is_elsewhere),
        each.user or _UNKNOWN,
        each.program or _UNKNOWN,
        each.profile or _NONE,
        _NONE if each.lease_bytes is None else sized(each.lease_bytes),
        _used(each),
        _since(each.since, today),
    )


def _used(each: Holding) -> str:
    if each.used_bytes is None:
        return _UNKNOWN
    return f"~{sized(each.used_bytes)}" if each.is_estimate else sized(each.used_bytes)


def _user(each: UserHoldings, card: CardHoldings) -> _Row:
    return _Row(
        card.label,
        "",
        each.user or _UNKNOWN,
        f"{each.process_count} process{'' if each.process_count == 1 else 'es'}",
        "",
        _NONE if each.lease_bytes is None else sized(each.lease_bytes),
        _UNKNOWN if each.used_bytes is None else sized(each.used_bytes),
        "",
        "dim",
    )


def _line(holdings: Holdings, width: int | None) -> Iterator[Line]:
    """Yield the lines about the waiting programs."""
    if holdings.waiting:
        yield Line("waiting in line", "bold", 0)
        yield from column_lines(waiting_columns(holdings), width)


def waiting_columns(holdings: Holdings) -> list[Column]:
    """Return the table of waiting programs."""
    waiting, today = holdings.waiting, holdings.made_at[:10]
    return [
        Column("GPU", tuple(_joined(p.label for p in each.places) for each in waiting)),
        Column(
            "PLACE",
            tuple(_joined(str(p.place) for p in each.places) for each in waiting),
            is_right=True,
        ),
        Column(
            "PID",
            tuple(_pid(each.pid, is_elsewhere=each.is_elsewhere) for each in waiting),
            is_right=True,
        ),
        Column("USER", tuple(each.user or _UNKNOWN for each in waiting), shortest=8),
        Column("PROGRAM", tuple(each.program or _UNKNOWN for each in waiting), shortest=12),
        Column("PROFILE", tuple(each.profile or _NONE for each in waiting), shortest=9, rank=2),
        Column("AT LEAST", tuple(map(_least, waiting)), is_right=True),
        Column("SINCE", tuple(_since(each.since, today) for each in waiting), rank=1),
    ]


def _joined(texts: Iterable[str]) -> str:
    """Join the texts, each once: a program may wait for several cards."""
    return ",".join(dict.fromkeys(texts))


def _least(each: WaitingProcess) -> str:
    return sized(min(place.least_bytes for place in each.places))


def _pid(pid: int, *, is_elsewhere: bool) -> str:
    return f"{pid}{'*' if is_elsewhere else ''}"


def _since(moment: str | None, today: str) -> str:
    """Return the time of day, or the day if not today, or the month if not this year."""
    if moment is None:
        return _UNKNOWN
    date = moment[:10]
    if date == today:
        return moment[11:16]
    if date[:4] == today[:4]:
        return f"{int(date[8:])} {_MONTHS[int(date[5:7]) - 1]}"
    return date[:7]


def remark_lines(holdings: Holdings) -> Iterator[Line]:
    """Yield remarks about what the figures do not show."""
    rows = [each for card in holdings.cards for each in card.processes]
    is_elsewhere = any(each.is_elsewhere for each in rows)
    is_elsewhere |= any(each.is_elsewhere for each in holdings.waiting)
    sums = [each.used_bytes for card in holdings.cards for each in card.others]
    if is_elsewhere:
        yield Line(_ELSEWHERE, "dim", 2)
    if None in [*sums, *(each.used_bytes for each in rows)]:
        yield Line(_UNSAID, "dim", 2)
    if any(each.is_estimate for each in rows):
        yield Line(_ESTIMATED, "dim", 2)
    if any(card.others for card in holdings.cards):
        yield Line(_ALL_USERS, "dim", 0)
    ledger = holdings.ledger
    if ledger.problem is not None:
        yield Line(ledger.problem, "dim", 0)
    elif ledger.is_private:
        private = f"leases are shared only within this container: {ledger.path} is its own"
        yield Line(f"{private} (docs/sharing.md says how to share the machine's)", "dim", 0)
