"""Whether leases keep their promise: racing starts, a third of them killed at random points.

Programs start at the same moment on a simulated 8 GiB GPU, with real NVML and driver calls over
its libraries.  Each takes its lease as the binding does, then a context and memory in steps, up to
its limit.  Within its own lease, the GPU must refuse nothing.  The same runs are repeated without
leases for comparison.

Then 10,000 programs die at random calls of the ledger, without a GPU.  What a lease costs in the
binding is measured by ``benchmarks.timing binding``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.leasing.racer import CONTEXT_MIB
from benchmarks.machine import machine
from gpuconf.basics.units import GIB, MIB, sized
from gpuconf.simcard import CardSpec, simulated_card
from gpuconf.simcard.card import PROCESSES

SPEC = CardSpec(total_bytes=8 * GIB, used_bytes=GIB, context_bytes=CONTEXT_MIB * MIB)
PARTS = ("race", "instant", "without", "cycles")
_GATE = 40
_KILLED = 0.35


class Round(NamedTuple):
    """A column of the first table."""

    title: str
    gates: list[int]
    killed: float = _KILLED
    with_leases: bool = True
    seed: int = 1


def rounds_of(options: argparse.Namespace) -> list[Round]:
    """The requested rounds."""
    starts = options.starts
    gates = [_GATE] * (starts // _GATE) or [starts]
    asked = []
    if "race" in options.parts:
        names = ("round 1", "round 2")
        asked += [Round(name, gates, seed=seed) for seed, name in enumerate(names, options.seed)]
    if "instant" in options.parts:
        asked.append(Round("at one instant", [starts], seed=options.seed + 2))
    if "without" in options.parts:
        few = gates[:3]
        asked.append(Round("no leases", few, killed=0, with_leases=False, seed=options.seed))
    return asked


def run_round(asked: Round, spec: CardSpec) -> dict[str, Any]:
    """Run one round on its own GPU."""
    more = ["--gates", *map(str, asked.gates), "--seed", str(asked.seed)]
    more += ["--killed", str(asked.killed), "--leases" if asked.with_leases else "--no-leases"]
    with simulated_card(spec) as card:
        return run_module("benchmarks.leasing.race", more, card.environment(os.environ))


def run_module(name: str, arguments: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Run one of the programs and return its output."""
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def column(asked: Round, found: Mapping[str, Any]) -> dict[str, str]:
    """The result of one round, as the rows of its column."""
    events = found["events"]
    granted = [each for each in events if each["event"] == "granted"]
    ended = [each for each in events if each["event"] == "end"]
    waits_ms = sorted(1e3 * wait for each in granted for wait in each["mutex_waits_s"])
    rows = {
        "starts, killed, granted": f"{found['starts']}, {found['killed']}, {len(granted)}",
        "allocations refused": str(sum(each["refused"] for each in ended)),
    }
    with_leases = {
        "grants whose sum exceeded the GPU": str(found["over"]),
        "grants without a lease": str(sum(each["event"] == "unleased" for each in events)),
        "live leases left": str(found["leaked"]),
        "stale files, and after the next sweep": f"{found['stale_before']}, {found['stale_after']}",
        "mutex taken, times": str(len(waits_ms)),
        **{f"mutex waited for, {name}": _at(waits_ms, share) for name, share in _SHARES},
    }
    if asked.with_leases:
        rows |= with_leases
    rows["programs that failed"] = str(found["failed"])
    rows["GPU memory left"] = sized(found["left_bytes"])
    rows["seconds"] = f"{found['wall_s']:.0f}"
    return rows


_SHARES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0))


def _at(sorted_ms: Sequence[float], share: float) -> str:
    if not sorted_ms:
        return "–"
    return f"{sorted_ms[min(len(sorted_ms) - 1, int(share * len(sorted_ms)))]:.2f} ms"


def table(columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The columns side by side, in Markdown."""
    names = list(dict.fromkeys(name for rows in columns.values() for name in rows))
    found = [f"| | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        cells = [rows.get(name, "–") for rows in columns.values()]
        found.append(f"| {name} | {' | '.join(cells)} |")
    return found


def keeps_its_promise(found: Mapping[str, Any]) -> bool:
    """Whether nothing was refused, over-committed, left behind or lost."""
    refused = sum(each["refused"] for each in found["events"] if each["event"] == "end")
    faults = ("over", "leaked", "stale_after", "failed", "left_bytes")
    return not refused and not any(found[name] for name in faults)


def run_cycles(options: argparse.Namespace, folder: str) -> bool:
    """Run and print the kill cycles; return whether all succeeded."""
    environ = {**os.environ, "GPUCONF_LEASES": os.path.join(folder, "ledger")}
    more = ["--cycles", str(options.cycles), "--seed", str(options.seed)]
    found = run_module("benchmarks.leasing.kill_cycles", more, environ)
    rows = {name.replace("_", " "): str(value) for name, value in found.items()}
    rows["wall s"] = f"{found['wall_s']:.0f}"
    print("", *table({"kill cycles on the ledger alone": rows}), sep="\n", flush=True)
    faults = ("over_commits", "lost_leases", "failed", "leaked", "stale_after")
    return not any(found[name] for name in faults)


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all")
    parser.add_argument("--starts", type=int, default=400, help="of each round; default: 400")
    parser.add_argument("--cycles", type=int, default=10_000, help="default: 10000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", choices=PROCESSES, default="exact", help="what NVML reports")
    return parser.parse_args(arguments)


def main() -> int:
    """Race, kill, print; return 1 if a promise was broken."""
    options = parse()
    print(machine("pyyaml", "nvidia-ml-py"), flush=True)
    is_good, columns = True, {}
    for asked in rounds_of(options):
        found = run_round(asked, SPEC._replace(processes=options.processes))
        columns[asked.title] = column(asked, found)
        if asked.with_leases:
            is_good &= keeps_its_promise(found)
        for each in found["events"]:
            if each["event"] in ("failed", "unleased"):
                print(each, file=sys.stderr)
    if columns:
        print("", *table(columns), sep="\n", flush=True)
    if "cycles" in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            is_good &= run_cycles(options, folder)
    print("", f"load {os.getloadavg()[0]:.1f} at the end", sep="\n")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
