"""The thin edges of the doctor: each looks at one part of the machine, once, and returns values."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from gpuconf import environ as environment
from gpuconf.doctor.facts import Facts, Packages, ProfileFacts, System
from gpuconf.doctor.finding import Finding
from gpuconf.doctor.probes.packages import read_packages
from gpuconf.doctor.probes.processes import read_processes
from gpuconf.doctor.probes.profile import read_profile
from gpuconf.doctor.probes.system import read_system
from gpuconf.hardware import Inventory
from gpuconf.hardware.health import CardHealth
from gpuconf.hardware.nvml_health import read_inventory_and_health

_T = TypeVar("_T")


class Gathered(NamedTuple):
    """The facts, and a finding for each probe that broke down."""

    facts: Facts
    crashes: tuple[Finding, ...] = ()


def gather(
    *,
    profile: str | None = None,
    root: str = "/",
    environ: Mapping[str, str] = os.environ,
) -> Gathered:
    """Look at the machine.  A probe that breaks down leaves its facts unknown, and a finding."""
    crashes: list[Finding] = []

    def attempt(name: str, probe: Callable[[], _T], default: _T) -> _T:
        try:
            return probe()
        except Exception as error:
            crashes.append(crash(f"probe.{name}", error))
            return default

    baseline = environment.before_gpuconf(environ)
    nothing: tuple[Inventory, dict[int, CardHealth]] = (Inventory(), {})
    inventory, health = attempt("nvml", read_inventory_and_health, nothing)
    system = attempt("system", lambda: read_system(root=root, environ=baseline), System())
    inside = system.container is not None
    facts = Facts(
        inventory=inventory,
        health=health,
        system=system,
        processes=attempt(
            "processes",
            lambda: read_processes(inventory, root=root, in_container=inside),
            {},
        ),
        packages=attempt(
            "packages", lambda: read_packages(root=root, environ=baseline), Packages()
        ),
        profile=attempt(
            "profile", lambda: read_profile(profile, inventory, environ=environ), ProfileFacts()
        ),
        environ=baseline,
    )
    return Gathered(facts, tuple(crashes))


def crash(name: str, error: Exception) -> Finding:
    """The finding for a part of the doctor that broke down: our fault, not the machine's."""
    where = traceback.extract_tb(error.__traceback__)[-3:]
    lines = tuple(f"{frame.filename}:{frame.lineno} in {frame.name}" for frame in where)
    return Finding(
        name,
        "crash",
        f"it broke down by itself ({type(error).__name__}: {error}): a bug in gpuconf",
        lines,
        fix="gpuconf doctor --json > doctor.json   # and report a bug with it",
    )
