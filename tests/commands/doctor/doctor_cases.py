"""The cases of cases/*.yaml: for each check machines that it faults, and machines that it does not.

A row has the status with words of the summary, detail or fix, and what differs from the sound
machine, field by field as `Facts` has them.  ``gpus`` are those of NVML, each with what differs
from `CARD`; ``nvml`` is the code of nvml.h with which NVML does not start; ``bare`` is a machine
without a GPU and without packages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import yaml

from gpuconf.basics.units import GIB, parse_size
from gpuconf.commands.doctor.facts import Facts, Package
from gpuconf.commands.doctor.finding import Status
from gpuconf.errors import GpuconfError, ProfileError, ShortageError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.machine.cards.health import CardHealth
from gpuconf.machine.cards.holders import Process
from gpuconf.machine.cards.nvml import PROBLEMS
from tests.commands.doctor.doctor_machines import BARE, CARD, RUNNING, SOUND

ERRORS: dict[str, GpuconfError] = {
    "shortage": ShortageError("profile x: not enough GPU memory\n  the sum", hint="stop one"),
    "leased": ShortageError("9 GiB free; 11 GiB needed", wanted={CARD.uuid or "": 11 * GIB}),
    "not gpuconf": ShortageError("full", restart="pid 4242 runs without `gpuconf`"),
    "unknown key": ProfileError(
        "unknown key", hint="write `memory`", file="a.yaml", line=3, column=1
    ),
    "untrusted": ProfileError(
        "env.BASH_ENV: this file was found",
        hint="read the file",
        command="gpuconf trust /w/gpuconf.yaml",
        file="/w/gpuconf.yaml",
    ),
    "no profile x": ProfileError("there is no profile x"),
    "no GPU 7": ProfileError("there is no GPU 7"),
}
# What values in lists and by key differ from.
BASES: dict[type, Any] = {Gpu: CARD, CardHealth: CardHealth(), Process: RUNNING}


class Case(NamedTuple):
    """What check ``id`` makes of ``facts``: the status, and words of its summary or fix."""

    id: str
    status: Status
    words: str
    facts: Facts


def changed(value: Any, changes: Mapping[str, Any]) -> Any:
    """A value type with these fields changed; what is nested is changed, too, not replaced."""
    hints = get_type_hints(type(value))
    fields = {
        name: _field(name, value_type_in(hints[name]), change, getattr(value, name))
        for name, change in changes.items()
    }
    return value._replace(**fields)


def value_type_in(hint: Any) -> type | None:
    """The value type that an annotation is made of, such as Gpu of ``tuple[Gpu, ...] | None``."""
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return hint
    return next(filter(None, map(value_type_in, get_args(hint))), None)


def _field(name: str, kind: Any, change: Any, now: Any) -> Any:
    if name in ("profile_error", "plan_error"):
        return change and ERRORS[change]
    if name == "installed":
        kept = {each: package for each, package in now.items() if each not in change}
        return kept | {
            each: Package(each, version, *map(tuple, requires))
            for each, (version, *requires) in change.items()
            if version is not None
        }
    if name.endswith("_bytes") and isinstance(change, str):
        return parse_size(change)
    if isinstance(change, list):
        return tuple(_new(kind, each) if isinstance(each, dict) else each for each in change)
    if isinstance(change, dict) and kind is not None:
        return changed(now, change) if now is not None else _new(kind, change)
    return change


def _new(kind: Any, fields: Mapping[str, Any]) -> Any:
    if kind in BASES:
        return changed(BASES[kind], fields)
    hints = get_type_hints(kind)
    values = {
        name: _field(name, value_type_in(hints[name]), value, None)
        for name, value in fields.items()
    }
    return kind(**values)


def facts_of(row: Mapping[str, Any]) -> Facts:
    """The machine of a row."""
    facts = BARE if row.get("bare") else SOUND
    for name, change in row.items():
        if name == "nvml":
            facts = facts._replace(inventory=Inventory.unknown(PROBLEMS[change]), health={})
        elif name == "gpus":
            gpus = tuple(changed(CARD, each) for each in change)
            facts = facts._replace(inventory=facts.inventory._replace(gpus=gpus))
        elif name == "health":
            facts = facts._replace(health={0: changed(CardHealth(), change)})
        elif name == "processes":
            facts = facts._replace(processes={4242: changed(RUNNING, change)})
        elif name in facts._fields:
            facts = changed(facts, {name: change})
    return facts


def cases() -> Iterator[Case]:
    """Every row of every file."""
    for file in sorted(Path(__file__).parent.glob("cases/*.yaml")):
        for check, rows in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            for row in rows:
                (status,) = row.keys() & {"ok", "warn", "fail", "skip"}
                yield Case(check, status, row[status], facts_of(row))


CASES = tuple(cases())
TROUBLES = tuple(case for case in CASES if case.status in ("warn", "fail"))
