"""Holdings as lines: GPUs as bars, who is using memory, who is waiting, what is unknown.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gpuconf.basics.units import sized
from gpuconf.commands.ps.document import (
    GpuUsage,
    Holdings,
    ProcessUsage,
    UserHoldings,
    WaitingProcess,
)
from gpuconf.support.reporting.columns import Column, column_lines
from gpuconf.support.reporting.lines import Line, broken
from gpuconf.support.reporting.memory_bars import BarLayout, BarRow, bar_lines

_PARTS = ("others", "yours", "unused", "free")
MEANINGS = ("others", "yours", "reserved, unused", "free")
_OVERHEAD_BYTES = 512 << 20  # memory that a driver may use without a process
_UNKNOWN, _NONE = "unknown", "-"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_ELSEWHERE = "* in another pid namespace, such as a container's, where the number counts"
_UNSAID = "memory in use unknown (not reported under WSL2 or in containers)"
_ESTIMATED = (
    "~ estimated from how the GPU's use has grown: the driver does not report it (WSL2, containers)"
)
_ALL_USERS = "`gpuconf ps --all-users` lists each process of other users"


def lines_of(holdings: Holdings, layout: BarLayout, nobody: str | None = None) -> list[Line]:
    """Return the full report; ``nobody`` is the text that replaces an empty table."""
    blocks: list[Iterable[Line]] = [
        problem_lines(holdings),
        bar_lines(list(map(bar_row, holdings.cards)), _PARTS, MEANINGS, layout),
        _processes(holdings, layout.width, nobody),
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


def bar_row(card: GpuUsage) -> BarRow:
    """Build a GPU's row: its name, its memory in parts, and what is unknown."""
    name = (card.name or card.uuid or "(no name)").removeprefix("NVIDIA ")
    if card.mig_ids is not None and " MIG " in name:  # the part that distinguishes it
        name = f"MIG {name.partition(' MIG ')[2]}"
    remarks = []
    if card.index is None:
        remarks.append("NVML does not list this GPU")
    elif card.bar is None:
        remarks.append("memory unknown")
    if card.estimated_bytes is not None:
        remarks.append(
            f"the programs with a reservation use about {sized(card.estimated_bytes)} together; "
            "the driver does not report how much each of them uses"
        )
    elif card.index is not None and not card.lists_processes:
        remarks.append("the driver does not report which processes use memory")
    below = ("; ".join(remarks),) if remarks else ()
    return BarRow(card.label, name, card.bar, below, _busy(card.busy_percent))


# The columns of both tables, each with the options of its Column.
_COLUMNS: dict[str, dict[str, Any]] = {
    "GPU": {},
    "PLACE": {"is_right": True},
    "PID": {"is_right": True},
    "USER": {"shortest": 8},
    "PROGRAM": {"shortest": 12},
    "PROFILE": {"shortest": 9, "rank": 2},
    "RESERVED": {"is_right": True},
    "AT MOST": {"is_right": True, "rank": 3},
    "IN USE": {"is_right": True},
    "BUSY": {"is_right": True, "rank": 4},
    "IDLE SINCE": {},
    "AT LEAST": {"is_right": True},
    "SINCE": {"rank": 1},
}
_HELD = (
    *("GPU", "PID", "USER", "PROGRAM", "PROFILE"),
    *("RESERVED", "AT MOST", "IN USE", "BUSY", "SINCE", "IDLE SINCE"),
)
_WAITING = ("GPU", "PLACE", "PID", "USER", "PROGRAM", "PROFILE", "AT LEAST", "SINCE")


def _table(names: Iterable[str], rows: Iterable[tuple[str, ...]]) -> list[Column]:
    return [
        Column(name, cells, **_COLUMNS[name])
        for name, cells in zip(names, zip(*rows, strict=True), strict=True)
    ]


def _processes(holdings: Holdings, width: int | None, nobody: str | None) -> Iterable[Line]:
    """Return the table of processes, or the text that replaces it if it is empty."""
    today = holdings.made_at[:10]
    rows, styles = [], []
    for card in holdings.cards:
        rows += [_process(each, card, today) for each in card.processes]
        rows += [_user(each, card) for each in card.others]
        styles += [""] * len(card.processes) + ["dim"] * len(card.others)
    if not rows:
        return [Line(nobody or _nobody(holdings), hang=0)] if holdings.cards else []
    return column_lines(_table(_HELD, rows), width, styles)


def _nobody(holdings: Holdings) -> str:
    taken = [card.unlisted_bytes or 0 for card in holdings.cards]
    if not any(each > _OVERHEAD_BYTES for each in taken):
        return "no process uses memory or a lease"
    return (
        f"no leases; the driver lists no process, but {sized(sum(taken))} are in use: by a "
        "display, or by programs in another container or virtual machine"
    )


def _process(each: ProcessUsage, card: GpuUsage, today: str) -> tuple[str, ...]:
    most = each.most_bytes or 0
    return (
        card.label,
        _pid(each.pid, is_elsewhere=each.is_elsewhere),
        each.user or _UNKNOWN,
        each.program or _UNKNOWN,
        each.profile or _NONE,
        _NONE if each.lease_bytes is None else sized(each.lease_bytes),
        # Without a row that may take more than is reserved, the column is not shown.
        sized(most) if most > (each.lease_bytes or 0) else "",
        _used(each),
        _busy(each.busy_percent),
        _since(each.since, today),
        "" if each.idle_since is None else _since(each.idle_since, today),
    )


def _busy(percent: int | None) -> str:
    """Return the BUSY cell; the column is not shown where the driver reports nothing."""
    return "" if percent is None else f"{percent} %"


def _used(each: ProcessUsage) -> str:
    if each.used_bytes is None:
        return _UNKNOWN
    return f"~{sized(each.used_bytes)}" if each.is_estimate else sized(each.used_bytes)


def _user(each: UserHoldings, card: GpuUsage) -> tuple[str, ...]:
    return (
        card.label,
        "",
        each.user or _UNKNOWN,
        f"{each.process_count} process{'' if each.process_count == 1 else 'es'}",
        "",
        _NONE if each.lease_bytes is None else sized(each.lease_bytes),
        "",
        _UNKNOWN if each.used_bytes is None else sized(each.used_bytes),
        "",
        "",
        "",
    )


def _line(holdings: Holdings, width: int | None) -> Iterator[Line]:
    """Yield the table of waiting programs."""
    if holdings.waiting:
        yield Line("waiting in the queue", "bold", 0)
        rows = [_waiting(each, holdings.made_at[:10]) for each in holdings.waiting]
        yield from column_lines(_table(_WAITING, rows), width)


def _waiting(each: WaitingProcess, today: str) -> tuple[str, ...]:
    return (
        _joined(place.label for place in each.places),
        _joined(str(place.place) for place in each.places),
        _pid(each.pid, is_elsewhere=each.is_elsewhere),
        each.user or _UNKNOWN,
        each.program or _UNKNOWN,
        each.profile or _NONE,
        sized(min(place.least_bytes for place in each.places)),
        _since(each.since, today),
    )


def _joined(texts: Iterable[str]) -> str:
    """Join the texts, each only once, since a program may wait for several GPUs."""
    return ",".join(dict.fromkeys(texts))


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
    if is_elsewhere:
        yield Line(_ELSEWHERE, "dim", 2)
    cards = [card for card in holdings.cards if card.estimated_bytes is None]
    unsaid = [each.lease_bytes for c in cards for each in c.processes if each.used_bytes is None]
    unsaid += [each.lease_bytes for c in cards for each in c.others if each.used_bytes is None]
    if unsaid:
        whole = ", and the whole reservation under UNUSED" if any(unsaid) else ""
        counted = f": the bar counts it under OTHERS{whole}" if any(c.bar for c in cards) else ""
        yield Line(_UNSAID + counted, "dim", 2)
    if any(each.is_estimate and each.used_bytes is not None for each in rows):
        yield Line(_ESTIMATED, "dim", 2)
    if any(card.others for card in holdings.cards):
        yield Line(_ALL_USERS, "dim", 0)
    if holdings.policy is not None:
        yield Line(holdings.policy, "dim", 0)
    ledger = holdings.ledger
    if ledger.problem is not None:
        yield Line(ledger.problem, "dim", 0)
    elif ledger.is_private:
        private = f"leases are shared only within this container: {ledger.path} is its own"
        yield Line(
            f"{private} (`gpuconf docs clusters` shows how to share the machine's)", "dim", 0
        )
