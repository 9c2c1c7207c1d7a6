"""The files in the lease ledger: leftovers, foreign files, and stopped processes."""

from __future__ import annotations

import os
import shlex

from gpuconf.commands.doctor.checks.check import Check, ok, warn
from gpuconf.commands.doctor.checks.ledger import MOST_SHOWN, described, of_contents
from gpuconf.commands.doctor.facts import LedgerContents, LedgerFacts, MutexFacts
from gpuconf.commands.doctor.finding import Finding

# From 10,000 files on, a card's folder is no longer read.
_MANY_LEFT = 1000


def _left(contents: LedgerContents, _: LedgerFacts) -> Finding:
    others = [each for each in contents.left if not each.may_remove]
    is_one = len(contents.left) == 1
    count = "1 file" if is_one else f"{len(contents.left)} files"
    count += " of programs that have ended"
    if len(others) >= _MANY_LEFT:
        users = ", ".join(sorted({each.user or "?" for each in others})[:MOST_SHOWN])
        return warn(
            f"{count} are left, and only {users} or root can remove {len(others)} of them",
            "they are ignored; beyond 10000 files a card's leases are no longer read",
            fix=_sweep(contents),
        )
    if not contents.left:
        return ok("no file of a program that has ended is left")
    own = len(contents.left) - len(others)
    return ok(
        f"{count} {'is' if is_one else 'are'} left, and count{'s' if is_one else ''} for nothing",
        f"the next program that leases memory removes {own} of them"
        + (f"; {len(others)} belong to other users, whose next program does" if others else ""),
    )


def _sweep(contents: LedgerContents) -> str:
    """The command that removes the files of a ledger that no program has open, as holders do."""
    path = shlex.quote(contents.path)
    ended = '\'for f; do fuser -s "$f" || rm "$f"; done\''
    return f"sudo find {path} -mindepth 2 -type f -exec sh -c {ended} _ {{}} +"


def _files(contents: LedgerContents, _: LedgerFacts) -> Finding:
    if contents.crowded:
        return warn(
            f"{contents.crowded[0]} holds so many files that nothing is leased there",
            fix=_sweep(contents),
        )
    if contents.strange:
        shown = ", ".join(each.path for each in contents.strange[:MOST_SHOWN])
        rest = len(contents.strange) - MOST_SHOWN
        folders = sorted({os.path.dirname(each.path) for each in contents.strange})
        listed = " ".join(map(shlex.quote, folders[:MOST_SHOWN]))
        return warn(
            f"not written by gpuconf, or not readable: {shown}"
            + (f" and {rest} more" if rest > 0 else ""),
            "gpuconf skips them; an unreadable lease does not count",
            fix=f"ls -la {listed}   # then remove what is not gpuconf's",
        )
    return ok(f"all files in {contents.path} are leases")


def _mutex(_: LedgerContents, ledger: LedgerFacts) -> Finding:
    mutex = ledger.mutex
    if mutex is None or mutex.holder is None:
        return ok("nobody holds the ledger's mutex for long")
    name = f" {mutex.name}" if mutex.name else ""
    user = f" of {mutex.user}" if mutex.user else ""
    is_stopped = mutex.state == "T"
    return warn(
        f"pid {mutex.holder}{name}{user} {'is stopped and ' if is_stopped else ''}holds "
        f"{mutex.path}, for {mutex.held_s:.0f} s at least",
        "programs that start meanwhile wait ten seconds for it, and lease nothing",
        fix=_how_to_release(mutex, is_stopped=is_stopped),
    )


def _how_to_release(mutex: MutexFacts, *, is_stopped: bool) -> str:
    sudo = "" if mutex.is_ours else "sudo "
    if is_stopped:
        return f"{sudo}kill -CONT {mutex.holder}"
    return f"ps -fp {mutex.holder}   # then: {sudo}kill {mutex.holder}"


def _stopped(contents: LedgerContents, _: LedgerFacts) -> Finding:
    stopped = [each for each in contents.holders if each.state == "T"]
    if not stopped:
        return ok("no process that holds a lease, or waits for one, is stopped")
    sudo = "" if all(each.is_ours for each in stopped) else "sudo "
    pids = " ".join(dict.fromkeys(str(each.pid) for each in stopped))
    more = len(stopped) - MOST_SHOWN
    return warn(
        "stopped, and keeps what it has: "
        + "; ".join(described(stopped))
        + (f"; {more} more" if more > 0 else ""),
        "a lease ends with its process; a stopped program in line keeps its place, and is passed",
        fix=f"{sudo}kill -CONT {pids}   # or, to end them: {sudo}kill -9 {pids}",
    )


CHECKS = (
    Check("leases.left", "programs that have ended left few files", of_contents(_left)),
    Check("leases.files", "the folder contains only leases", of_contents(_files)),
    Check("leases.mutex", "no process keeps programs from leasing", of_contents(_mutex)),
    Check("leases.stopped", "the processes that hold leases run", of_contents(_stopped)),
)
