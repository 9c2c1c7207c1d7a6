"""The jobs: how each is submitted, and the limit that TensorFlow must have in it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.acceptance.slurm.cluster import ROOT, asked

PROGRAM = ROOT / "tests" / "acceptance" / "programs" / "slurm_job.py"
_PATIENCE_S = 300
# The simulated GPU, its desktop, what the profile keeps free and counts as a context, in MiB.
_TOTAL, _USED, _KEPT, _CONTEXT = 8192, 1024, 512, 640
_WHOLE = int(0.7 * _TOTAL)  # shared-desktop's own fraction is less than a whole GPU's share


class Job(NamedTuple):
    """A job, and the part of the GPU that each of its programs has, by name; 1 for no share.

    ``command`` is srun's or sbatch's; ``steps`` are further steps in a batch script.  ``memory``
    goes into the profile, ``slurm`` too; ``tasks_say`` is whether the TaskProlog speaks.
    """

    command: tuple[str, ...]
    parts: Mapping[str, float]
    step: tuple[str, ...] = ()
    profile: str = ""
    tasks_say: bool = True

    def part_of(self, name: str) -> str:
        """For the table."""
        part = self.parts[name]
        return "-" if part == 1 else f"{part:g}"

    def limits_of(self, name: str) -> list[int]:
        """In MiB: the share of what others leave, less a context."""
        part = self.parts[name]
        if part == 1:
            return [_WHOLE]
        return [int(part * (_TOTAL - _USED - _KEPT)) - _CONTEXT]


_SHARD = ("srun", "--gres=shard:2")
SHARD_JOBS = (
    Job(("srun", "--gres=gpu:1"), {"gpu": 1}),
    Job(("srun",), {"no gres": 1}),  # Slurm hides no GPU without ConstrainDevices in cgroup.conf
    Job(_SHARD, {"shard, step": 0.25}),
    Job(
        ("sbatch", "--gres=shard:3"),
        {"shard, batch": 0.375, "shard, step of a batch": 0.25},
        step=_SHARD,
    ),
    Job(
        ("sbatch", "--array=1-2", "--gres=shard:2"),
        {"array, element 1": 0.25, "array, element 2": 0.25},
    ),
    Job(_SHARD, {"shards by scontrol": 0.25}, tasks_say=False),
    Job(_SHARD, {"shards by profile": 0.5}, profile="slurm: {shards_per_gpu: 4}", tasks_say=False),
    Job(_SHARD, {"share: none": 1}, profile="memory: {share: none}"),
)
MPS_JOBS = (
    Job(("srun", "--gres=mps:25"), {"mps": 0.25}, profile="memory: {share: slurm}"),
    Job(("srun", "--gres=mps:25"), {"mps, not requested": 1}),
)


def ran(job: Job, folder: Path, environ: Mapping[str, str]) -> dict[str, Any]:
    """What each program of a job has printed, by its name."""
    profile = folder / "profile.yaml"
    more = job.profile or "memory: {}"
    own = more.replace("memory: {", "memory: {context: 640MiB, lease: false, ")
    if "memory" not in own:
        own += "\nmemory: {context: 640MiB, lease: false}"
    profile.write_text(f"extends: shared-desktop\n{own}\n")
    environ = {**environ, "GPUCONF_PROFILE": str(profile)}
    unset = "" if job.tasks_say else "unset GPUCONF_SHARDS_PER_GPU; "
    program = f"{unset}exec {sys.executable} {PROGRAM}"
    if job.command[0] == "srun":
        printed = [_output([*job.command, "sh", "-c", program], environ)]
    else:
        printed = _batch(job, program, folder, environ)
    answers = [json.loads(each) for each in printed]
    return dict(zip(job.parts, answers, strict=True))


def _batch(job: Job, program: str, folder: Path, environ: Mapping[str, str]) -> list[str]:
    """The lines that the programs of a batch job print, in their order."""
    script = folder / "job.sh"
    lines = ["#!/bin/sh", f"sh -c '{program}'"]
    lines += [f"{' '.join(job.step)} sh -c '{program}'"] if job.step else []
    script.write_text("\n".join(lines) + "\n")
    for old in folder.glob("batch-*.out"):
        old.unlink()
    command = [*job.command, "--wait", f"--output={folder}/batch-%A-%a.out", str(script)]
    subprocess.run(command, env=environ, check=False, timeout=_PATIENCE_S, capture_output=True)
    texts = [each.read_text() for each in sorted(folder.glob("batch-*.out"))]
    return [line for text in texts for line in text.splitlines() if line.startswith("{")]


def _output(command: list[str], environ: Mapping[str, str]) -> str:
    done = subprocess.run(
        command, env=environ, check=False, timeout=_PATIENCE_S, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"{' '.join(command)} printed nothing\n{done.stderr[-3000:]}")
    return lines[0]


def queued(folder: Path, environ: Mapping[str, str]) -> list[str]:
    """Three jobs of 4 shards on 8: the third waits, and runs when the first has ended."""
    script = folder / "sleep.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    command = ["sbatch", "--parsable", "--gres=shard:4", "--output=/dev/null", str(script)]
    jobs = [asked(command, environ) for _ in range(3)]
    before = _states(jobs, environ, lambda found: found.count("RUNNING") == 2)
    subprocess.run(["scancel", jobs[0]], env=environ, check=True)
    after = _states(jobs[1:], environ, lambda found: found == ["RUNNING"] * 2)
    subprocess.run(["scancel", *jobs], env=environ, check=False, capture_output=True)
    print(f"| three of 4 shards each | 0.5 | - | {' '.join(before)}; then {' '.join(after)} |")
    if before.count("PENDING(Resources)") != 1 or after != ["RUNNING"] * 2:
        return [f"three jobs of 4 shards: {before}, then {after}"]
    return []


def _states(jobs: list[str], environ: Mapping[str, str], is_there: Any) -> list[str]:
    """Their states, once they are as wanted or half a minute has gone."""
    command = ["squeue", "-h", "-S", "i", "-o", "%T%r", f"--jobs={','.join(jobs)}"]
    end = time.monotonic() + 30
    while True:
        lines = asked(command, environ).replace("RUNNINGNone", "RUNNING").splitlines()
        found = [line.replace("PENDING", "PENDING(") + ")" * ("PENDING" in line) for line in lines]
        if is_there(found) or time.monotonic() > end:
            return found
        time.sleep(0.5)
