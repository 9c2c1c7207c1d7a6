"""The checks, which are pure functions from facts to a finding with an id, and their runner."""

from __future__ import annotations

from gpuconf.commands.doctor.checks import (
    builds,
    cards,
    driver,
    environment,
    health,
    host,
    leases,
    packages,
    profile,
    stale_processes,
    variables,
)
from gpuconf.commands.doctor.checks.check import Check
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding, crash

CHECKS: tuple[Check, ...] = (
    *driver.CHECKS,
    *cards.CHECKS,
    *health.CHECKS,
    *stale_processes.CHECKS,
    *leases.CHECKS,
    *packages.CHECKS,
    *builds.CHECKS,
    *environment.CHECKS,
    *variables.CHECKS,
    *host.CHECKS,
    *profile.CHECKS,
)


def run_check(check: Check, facts: Facts) -> Finding:
    """Run ``check`` on ``facts``; if it raises, the crash is the finding."""
    try:
        return check.judge(facts)._replace(id=check.id)
    except Exception as error:
        return crash(check.id, error)
