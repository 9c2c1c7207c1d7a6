"""Kill cycles on the ledger alone: forked programs take, wait, release, and die at any call of it.

There is no GPU and no NVML: a program only uses the sum of the leases that it finds under the
mutex.  One more program holds a lease throughout, which every one of them must see.  Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from benchmarks.leasing.race import stale_files, swept
from benchmarks.leasing.sudden_death import Death, arm
from gpuconf.machine.leases.folder import LedgerFolder, find_folder
from gpuconf.machine.leases.lease import next_ticket
from gpuconf.machine.leases.ledger import Ledger

_CARD = "GPU-kill-cycles"
_ROOM = 100  # in any unit: the ledger only adds
_ALWAYS_HELD = 30
_AT_ONCE = 8
_LATEST_CALL = 50
_NOTE = {"program": "kill cycles"}
# Exit codes of a program that found a broken promise or no ledger.
_OVER_COMMITTED, _LOST_A_LIVING_LEASE, _FAILED = 3, 4, 5


class Cycles(NamedTuple):
    """The results of the cycles."""

    programs: int
    killed: int
    over_commits: int
    lost_leases: int
    failed: int
    leaked: int
    most_stale: int
    stale_after: int
    wall_s: float


def one_life(folder: LedgerFolder, seed: int) -> None:
    """A program: three times a lease or a place in the queue, in turn, and a release."""
    chance = random.Random(seed)
    ledger = Ledger(folder)
    arm(Death(call=chance.randint(1, _LATEST_CALL)))
    for _ in range(3):
        with ledger.mutex.held():
            found = [each.size_bytes for each in ledger.leases(_CARD, sweep=True)]
            ticket, size = next_ticket(), chance.randint(1, 60)
            is_first = not ledger.waiting(_CARD, ticket, sweep=True)
            if _ALWAYS_HELD not in found:
                os._exit(_LOST_A_LIVING_LEASE)
            if sum(found) > _ROOM:
                os._exit(_OVER_COMMITTED)
            if is_first and sum(found) + size <= _ROOM:
                ledger.take({_CARD: size}, _NOTE, ticket)
            else:
                ledger.take({_CARD: size}, _NOTE, ticket, waiting=True)
        time.sleep(chance.uniform(0, 0.002))
        ledger.release_except([])


def _begin(folder: LedgerFolder, seed: int) -> int:
    pid = os.fork()
    if pid == 0:
        _live(folder, seed)
    return pid


def _live(folder: LedgerFolder, seed: int) -> NoReturn:
    code = _FAILED
    try:
        one_life(folder, seed)
        code = 0
    finally:
        os._exit(code)


def _hold(folder: LedgerFolder) -> int:
    """Start the program that holds its lease throughout; return its pid once it does."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        ledger = Ledger(folder)
        with ledger.mutex.held():
            ledger.take({_CARD: _ALWAYS_HELD}, _NOTE, next_ticket())
        os.write(write, b"h")
        while True:
            signal.pause()
    os.read(read, 1)
    os.close(read)
    os.close(write)
    return pid


def run_cycles(count: int, seed: int) -> Cycles:
    """Run programs, several at a time, until ``count`` are killed; a reader sweeps each batch."""
    chance = random.Random(seed)
    folder = find_folder()
    reader, root, began = Ledger(folder), Path(folder.path), time.monotonic()
    holder = _hold(folder)
    ends: dict[int, int] = {}
    leaked = most_stale = stale_after = 0
    try:
        while ends.get(-signal.SIGKILL, 0) < count:
            pids = [_begin(folder, chance.getrandbits(32)) for _ in range(_AT_ONCE)]
            for pid in pids:
                code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                ends[code] = ends.get(code, 0) + 1
            most_stale = max(most_stale, stale_files(root) - 1)
            leaked += swept(reader) - 1
            stale_after += stale_files(root) - 1
    finally:
        os.kill(holder, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(holder, 0)
    over, lost = ends.pop(_OVER_COMMITTED, 0), ends.pop(_LOST_A_LIVING_LEASE, 0)
    killed, good = ends.pop(-signal.SIGKILL, 0), ends.pop(0, 0)
    failed = sum(ends.values())
    wall_s = time.monotonic() - began
    return Cycles(
        killed + good + failed, killed, over, lost, failed, leaked, most_stale, stale_after, wall_s
    )


def main() -> None:
    """Run the cycles and print their results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, required=True, help="how many are to be killed")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result: dict[str, Any] = run_cycles(options.cycles, options.seed)._asdict()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main()
