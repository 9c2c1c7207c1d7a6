"""Slurm's shards as limits, on a real Slurm of one node and a simulated GPU: `make slurm`.

Needs root and the system's packages slurm-wlm and munge.  Prints a table in Markdown, and with
``--write`` the variables of each job as the fixture that tests/machine/schedulers reads.
"""

from __future__ import annotations

import argparse
import datetime
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.acceptance.slurm.cluster import ROOT, asked, cluster, missing
from tests.acceptance.slurm.jobs import MPS_JOBS, SHARD_JOBS, Job, queued, ran

FIXTURE = ROOT / "tests" / "machine" / "schedulers" / "slurm_environments.json"


def main() -> int:
    """Run every job; exit with 1 where a limit is not the one expected, with 2 without Slurm."""
    parser = argparse.ArgumentParser(prog="python -m tests.acceptance.slurm", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write {FIXTURE.name} again")
    options = parser.parse_args()
    reason = missing()
    if reason is not None:
        print(f"no Slurm for this test: {reason}", file=sys.stderr)
        return 2
    found: dict[str, dict[str, Any]] = {}
    failed = []
    print("| job | part | TensorFlow's limit, MiB |\n|---|---|---|")
    for kind, count, jobs in (("shard", 8, SHARD_JOBS), ("mps", 100, MPS_JOBS)):
        with tempfile.TemporaryDirectory(prefix="slurm-") as folder:
            failed += _phase(Path(folder), kind, count, jobs, found)
    if options.write:
        version = asked(["sinfo", "--version"], {})
        today = datetime.datetime.now(tz=datetime.timezone.utc).date().isoformat()
        document = {"slurm": version, "date": today, "jobs": found}
        FIXTURE.write_text(json.dumps(document, indent=2, sort_keys=True) + "\n")
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if failed else 0


def _phase(
    folder: Path, kind: str, count: int, jobs: tuple[Job, ...], found: dict[str, dict[str, Any]]
) -> list[str]:
    """Run ``jobs`` on a cluster of its own; return what went wrong."""
    failed = []
    with cluster(folder, kind, count) as environ:
        for job in jobs:
            for name, answer in ran(job, folder, environ).items():
                limits, expected = answer["limits"], job.limits_of(name)
                print(f"| {name} | {job.part_of(name)} | {limits} |", flush=True)
                if limits != expected:
                    failed.append(f"{name}: {limits} MiB, and {expected} were expected")
                found[name] = answer["environ"]
        if kind == "shard":
            failed += queued(folder, environ)
    return failed


if __name__ == "__main__":
    sys.exit(main())
