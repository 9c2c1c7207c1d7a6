"""What the tests of the live probe share: records as a child writes them, made in one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuconf.basics.units import GIB, MIB
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.live import LiveReport
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW
from gpuconf.commands.doctor.live.record import ChildRun, LiveRecord
from gpuconf.commands.doctor.probe_results import (
    CardMemory,
    LiveStep,
    MeasuredHolder,
    ProbedCard,
    StepError,
)

STEPS = TENSORFLOW.steps
TENSORFLOWS = {f"live.{name}" for name in (*STEPS, "headroom")}
TOTAL = 11264 * MIB
FACTS = (
    ("python", "/usr/bin/python3"),
    ("profile", "shared-desktop"),
    ("context", "1GiB"),
    ("version", "2.21.0"),
    ("is_cuda_build", "True"),
)


def card(
    place: int = 0, *, free: int = 9319 * MIB, limit: int | None = 7884 * MIB, growth: bool = True
) -> ProbedCard:
    """A GPU of 11264 MiB that a desktop is on."""
    uuid = f"GPU-{place}e8d35e3"
    holders = (MeasuredHolder(4242, "python3", used_bytes=2 * GIB),)
    return ProbedCard(place, f"GPU {place} RTX ({uuid})", uuid, TOTAL, free, limit, growth, holders)


def by_id(report: LiveReport) -> dict[str, Finding]:
    """The findings by id, of which each has one."""
    found = {finding.id: finding for finding in report.findings}
    assert len(found) == len(report.findings)
    return found


def passed(name: str, *places: int, own: int = 450 * MIB, seconds: float = 0.5) -> LiveStep:
    """A step that went well on the GPUs at ``places``."""
    used = TOTAL - 9319 * MIB + own
    memory = CardMemory(used, TOTAL - used, own, 1280, 3 * MIB)
    each = (memory,) * len(places)
    return LiveStep(name, places, seconds, each, each)


def failed(name: str, *places: int, error: str = "boom", kind: str = "InternalError") -> LiveStep:
    """A step that raised."""
    return passed(name, *places)._replace(error=StepError(kind, error))


def record(
    *steps: LiveStep,
    cards: Sequence[ProbedCard] = (card(),),
    listed: int | None = None,
    over: bool = True,
    **changes: Any,
) -> LiveRecord:
    """A record of these steps; ``changes`` are other fields, and what is not one is a fact."""
    facts = {**dict(FACTS), "listed": str(len(cards) if listed is None else listed)}
    fields = {name: changes.pop(name) for name in LiveRecord._fields if name in changes}
    made = LiveRecord(tuple(cards), steps, (*facts.items(), *changes.items()), is_over=over)
    return made._replace(**fields)


def up_to(last: str, *places: int) -> list[LiveStep]:
    """All steps before ``last``, passed, on GPUs that take them together."""
    before = STEPS[: STEPS.index(last)]
    steps = [passed(name, *(places if name != "start" else ())) for name in before[:2]]
    return [*steps, *(passed(name, *places) for name in before if name in STEPS[2:])]


def run(
    made: LiveRecord, output: str = "", code: int | None = 0, only: int | None = None
) -> ChildRun:
    """A child that ended with ``code``; None: its time was up."""
    return ChildRun(made, output, code, 120.0, only)


def whole(*places: int, own: int = 450 * MIB) -> list[LiveStep]:
    """All steps, passed, as a child takes them on these GPUs."""
    return [
        passed("start"),
        passed("context", *places, own=own),
        *(passed(name, place, own=own) for place in places for name in STEPS[2:]),
    ]
