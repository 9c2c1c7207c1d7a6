"""Many racers at the same moment on the GPU that this process sees; prints the results as JSON.

They are forked from one process that has imported everything, so all are ready when the gate opens.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from benchmarks.leasing.racer import Racer, Task, profiles
from benchmarks.leasing.sudden_death import Death
from gpuconf.machine.cards import read_inventory
from gpuconf.machine.leases.folder import find_folder
from gpuconf.machine.leases.ledger import Ledger
from gpuconf.profile import Profile

_LATEST_CALL = 60  # what a few queries of the GPU amount to
_LONGEST_S = 10.0


class Gate(NamedTuple):
    """Two pipes: racers report on one that they are ready, and wait until the other is closed."""

    ready_read: int
    ready_write: int
    open_read: int
    open_write: int


def deaths(chance: random.Random, count: int, share: float) -> list[Death]:
    """How each of ``count`` racers ends: about ``share`` of them are killed at a random point."""
    longest_s = min(_LONGEST_S, count / 12)

    def one() -> Death:
        if chance.random() >= share:
            return Death()
        if chance.random() < 0.6:
            return Death(call=chance.randint(1, _LATEST_CALL))
        return Death(after_s=chance.uniform(0, longest_s))

    return [one() for _ in range(count)]


def run_gate(tasks: list[Task], choice: list[Profile], log: Path) -> dict[str, Any]:
    """Start all ``tasks``, release them at the same moment, reap each; return the results."""
    gate = Gate(*os.pipe(), *os.pipe())
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC)
    pids = {_start(task, choice, gate, descriptor) for task in tasks}
    waited = 0
    while waited < len(tasks):
        waited += len(os.read(gate.ready_read, 4096))
    os.close(gate.open_write)
    reaped, killed, failed = {}, 0, 0
    while pids:
        pid, status = os.waitpid(-1, 0)  # at once: until then the GPU counts its memory
        pids.discard(pid)
        reaped[pid] = time.monotonic()
        code = os.waitstatus_to_exitcode(status)
        killed += code == -signal.SIGKILL
        failed += code not in (0, -signal.SIGKILL)
    for end in (gate.ready_read, gate.ready_write, gate.open_read, descriptor):
        os.close(end)
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return {"killed": killed, "failed": failed, "events": events}


def _start(task: Task, choice: list[Profile], gate: Gate, log: int) -> int:
    pid = os.fork()
    if pid == 0:
        _race(task, choice, gate, log)
    return pid


def _race(task: Task, choice: list[Profile], gate: Gate, log: int) -> NoReturn:
    code = 1
    try:
        os.close(gate.open_write)
        quiet = os.open(os.devnull, os.O_WRONLY)
        profile = random.Random(task.seed).choice(choice)
        racer = Racer(task, profile, log)
        os.write(gate.ready_write, b"r")
        os.read(gate.open_read, 1)
        os.dup2(quiet, 2)  # hundreds of lines about who is waiting
        racer.run()
        code = 0
    except BaseException:
        racer._say("failed", error=traceback.format_exc(limit=-4))
    finally:
        os._exit(code)


def stale_files(root: Path) -> int:
    """The number of files in the ledger's folders, including those of live leases."""
    return sum(len(files) for folder, _, files in os.walk(root) if Path(folder) != root)


def swept(ledger: Ledger) -> int:
    """The number of live leases and queue places, as found by the next reader, which sweeps."""
    with ledger.mutex.held():
        return sum(
            len(ledger.leases(card, sweep=True)) + len(ledger.waiting(card, sweep=True))
            for card in ledger.cards()
        )


def over_commits(events: list[dict[str, Any]], room_bytes: int) -> int:
    """Grants whose sum exceeded ``room_bytes``.

    Counted once by the process that took the lease, from the others' leases under the mutex, and
    once from the log: a process that reported its end certainly held its lease until then.
    """
    granted = [each for each in events if each["event"] == "granted"]
    ends = {each["pid"]: each["at_s"] for each in events if each["event"] == "end"}
    seen = {
        each["pid"] for each in granted if each["size_bytes"] + each["others_bytes"] > room_bytes
    }
    for one in granted:
        there = [
            each["size_bytes"]
            for each in granted
            if each["at_s"] <= one["at_s"] <= ends.get(each["pid"], each["at_s"])
        ]
        if sum(there) > room_bytes:
            seen.add(one["pid"])
    return len(seen)


def run_round(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Run all gates of a round, one after another; return the sums."""
    chance = random.Random(options.seed)
    choice = profiles(folder, with_lease=options.leases)
    idle = read_inventory().gpus[0]
    room_bytes = idle.free_bytes or 0
    ledger, began = Ledger(find_folder()), time.monotonic()
    sums: dict[str, Any] = {"starts": 0, "killed": 0, "failed": 0, "over": 0, "leaked": 0}
    sums |= {"stale_before": 0, "stale_after": 0, "events": []}
    for count in options.gates:
        ends = deaths(chance, count, options.killed)
        tasks = [Task(chance.getrandbits(32), options.leases, end) for end in ends]
        outcome = run_gate(tasks, choice, folder / "log")
        sums["starts"] += count
        sums["killed"] += outcome["killed"]
        sums["failed"] += outcome["failed"]
        sums["over"] += over_commits(outcome["events"], room_bytes)
        sums["stale_before"] += stale_files(Path(ledger.folder.path))
        sums["leaked"] += swept(ledger)
        sums["stale_after"] += stale_files(Path(ledger.folder.path))
        sums["events"] += outcome["events"]
    left_bytes = room_bytes - (read_inventory().gpus[0].free_bytes or 0)
    return {**sums, "wall_s": time.monotonic() - began, "left_bytes": left_bytes}


def main() -> None:
    """Run a round and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, nargs="+", required=True, help="racers in each gate")
    parser.add_argument("--killed", type=float, default=0.0, help="which share is to be killed")
    parser.add_argument("--leases", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        json.dump(run_round(options, Path(folder)), sys.stdout)


if __name__ == "__main__":
    main()
