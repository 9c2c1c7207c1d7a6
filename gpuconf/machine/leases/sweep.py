"""Remove the files of ended programs of all users, for an administrator.

    sudo python -m gpuconf.machine.leases.sweep /run/gpuconf

In a sticky folder a program can remove only its own user's files, so those of users who are gone
remain; they have no effect.
"""

from __future__ import annotations

import os
import sys

from gpuconf.machine.leases.files import folders_in, is_locked, names_in, remove
from gpuconf.machine.leases.folder import NoLedgerError, problem_of
from gpuconf.machine.leases.lease import UNFINISHED, parse, this_process
from gpuconf.machine.leases.mutex import Mutex


def sweep(folder: str) -> int:
    """Remove the files of ended programs in the ledger ``folder``; return their number.

    Takes the mutex.  Raises NoLedgerError if there is no ledger, or its mutex stays locked.
    """
    problem = problem_of(folder, follow_links=True)
    if problem is not None:
        raise NoLedgerError(problem)
    with Mutex(folder).held():
        return sum(map(_sweep_card, [entry.path for entry in folders_in(folder)]))


def _sweep_card(folder: str) -> int:
    here, ours = this_process(), []
    for name in names_in(folder):
        lease = parse(folder, name)
        # This process's own is never opened, which would end it.
        if name.startswith(UNFINISHED) or (lease is not None and lease.owner != here):
            ours.append(name)
    dead = [name for name in ours if not is_locked(os.path.join(folder, name))]
    for name in dead:
        remove(os.path.join(folder, name))
    return len(dead)


def main(arguments: list[str]) -> int:
    """Run the command; return its exit code."""
    if len(arguments) != 1:
        print("usage: python -m gpuconf.machine.leases.sweep FOLDER", file=sys.stderr)
        return 2
    try:
        count = sweep(arguments[0])
    except NoLedgerError as error:
        print(f"gpuconf: {error}", file=sys.stderr)
        return 1
    print(f"{count} file{'' if count == 1 else 's'} of ended programs removed")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
