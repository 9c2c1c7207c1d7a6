"""The thin edges of the doctor: each reads one part of the machine, once, and returns values."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from gpuconf import environ as environment
from gpuconf.doctor.facts import Facts, Packages, ProfileFacts, System
from gpuconf.doctor.finding import Finding, crash
from gpuconf.doctor.gathering.packages import read_packages
from gpuconf.doctor.gathering.profile import read_profile
from gpuconf.doctor.gathering.system import read_system
from gpuconf.errors import UsageError
from gpuconf.hardware import Inventory
from gpuconf.hardware.health import CardHealth, read_inventory_and_health
from gpuconf.hardware.holders import read_processes

_T = TypeVar("_T")


class GatheredFacts(NamedTuple):
    """The facts, and a finding for each part that could not be read because of a bug."""

    facts: Facts
    crashes: tuple[Finding, ...] = ()


def gather(
    *,
    profile: str | None = None,
    root: str = "/",
    environ: Mapping[str, str] = os.environ,
    script_folder: str | None = None,
) -> GatheredFacts:
    """Read the machine.  A reader that crashes leaves its facts unknown, and a finding of it.

    ``script_folder`` is where the search for the project's profile begins, if a script is examined.
    """
    crashes: list[Finding] = []

    def attempt(name: str, read: Callable[[], _T], default: _T) -> _T:
        try:
            return read()
        except UsageError:  # the user's own slip, in a variable: examine() raises it
            raise
        except Exception as error:
            crashes.append(crash(f"facts.{name}", error))
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
            "profile",
            lambda: read_profile(profile, inventory, environ=environ, script_folder=script_folder),
            ProfileFacts(),
        ),
        environ=baseline,
    )
    return GatheredFacts(facts, tuple(crashes))
