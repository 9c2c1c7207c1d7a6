"""Shared by the ledger checks: when they apply, and how a lease is described."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpuconf.basics.terminal import printable
from gpuconf.basics.units import sized
from gpuconf.commands.doctor.checks.check import NO_GPU, skip
from gpuconf.commands.doctor.facts import Facts, LeaseHolder, LedgerContents, LedgerFacts
from gpuconf.commands.doctor.finding import Finding

MOST_SHOWN = 4


def of_ledger(judge: Callable[[LedgerFacts, Facts], Finding]) -> Callable[[Facts], Finding]:
    """Apply ``judge`` only if programs can lease: a GPU is expected, and the ledger was read."""

    def judged(facts: Facts) -> Finding:
        if not facts.expects_gpu:
            return skip(NO_GPU)
        if facts.ledger is None:
            return skip("the ledger of leases is unknown")
        found = judge(facts.ledger, facts)
        # Any user can create file names in a ledger, and escape sequences would control the
        # terminal.
        detail = tuple(map(printable, found.detail))
        return found._replace(summary=printable(found.summary), detail=detail)

    return judged


def of_contents(
    judge: Callable[[LedgerContents, LedgerFacts], Finding],
) -> Callable[[Facts], Finding]:
    """Apply ``judge`` only if the lease folder exists."""

    def judged(ledger: LedgerFacts, _: Facts) -> Finding:
        if ledger.contents is None:
            return skip("no program has leased memory yet" if ledger.path else "there is no ledger")
        return judge(ledger.contents, ledger)

    return of_ledger(judged)


def described(holders: Sequence[LeaseHolder]) -> tuple[str, ...]:
    """Describe the first few ``holders``."""
    return tuple(map(_described, holders[:MOST_SHOWN]))


def _described(holder: LeaseHolder) -> str:
    program = f" {holder.program}" if holder.program else ""
    user = f" of {holder.user}" if holder.user else ""
    what = "waits for" if holder.is_waiting else "leases"
    return f"pid {holder.pid}{program}{user} {what} {sized(holder.size_bytes)} on {holder.card}"
