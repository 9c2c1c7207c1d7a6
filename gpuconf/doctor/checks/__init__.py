"""The checks: pure functions from the facts to a finding, each under an id, and their runner."""

from __future__ import annotations

from gpuconf.doctor.checks import (
    allocators,
    builds,
    cards,
    driver,
    environment,
    health,
    host,
    lease_files,
    leases,
    leftovers,
    packages,
    profile,
)
from gpuconf.doctor.checks.check import Check
from gpuconf.doctor.facts import Facts
from gpuconf.doctor.finding import Finding, crash

CHECKS: tuple[Check, ...] = (
    *driver.CHECKS,
    *cards.CHECKS,
    *health.CHECKS,
    *leftovers.CHECKS,
    *leases.CHECKS,
    *lease_files.CHECKS,
    *packages.CHECKS,
    *builds.CHECKS,
    *environment.CHECKS,
    *allocators.CHECKS,
    *host.CHECKS,
    *profile.CHECKS,
)


def run_check(check: Check, facts: Facts) -> Finding:
    """What ``check`` makes of ``facts``; that it breaks down is a finding too."""
    try:
        return check.judge(facts)._replace(id=check.id)
    except Exception as error:
        return crash(check.id, error)
