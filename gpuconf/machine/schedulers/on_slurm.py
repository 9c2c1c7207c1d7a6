"""Slurm's assignment to this process's job step: shards, or an MPS percentage.

Slurm's environment says how many shards a step has, but not how many a GPU has.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from gpuconf.errors import UsageError
from gpuconf.machine.cards.inventory import SLURM, Assigned
from gpuconf.profile.model import SlurmRules

SHARDS = "SLURM_SHARDS_ON_NODE"  # set if Slurm has assigned part of a GPU
# What Slurm says of a job's GPUs.
SLURM_VARIABLES = ("SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", SHARDS)
SHARDS_PER_GPU = "GPUCONF_SHARDS_PER_GPU"
_MPS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
_JOB = "SLURM_JOB_ID"
_PATIENCE_S = 10.0


def assigned(rules: SlurmRules, environ: Mapping[str, str]) -> Assigned | None:
    """Return the part of each GPU that the step has; None in a job without shards or MPS.

    Raises UsageError for a bad GPUCONF_SHARDS_PER_GPU.
    """
    shards = environ.get(SHARDS, "")
    if re.fullmatch("[1-9][0-9]{0,5}", shards):
        return _of_shards(int(shards), rules, environ)
    if shards:
        words = f"{SHARDS}={shards}"
        why = f"no limit for Slurm's share: {words} is not a number of shards"
        return Assigned(SLURM, None, words, why)
    percent = environ.get(_MPS, "")
    if _JOB not in environ or not re.fullmatch("[0-9]{1,4}", percent):
        return None
    words = f"{percent} % by MPS"
    if not 0 < int(percent) <= 100:  # Slurm 22.05 reports 312 if a GPU also has shards
        return Assigned(SLURM, None, words, f"no limit for Slurm's share: {_MPS} is {percent}")
    return Assigned(SLURM, int(percent) / 100, words)


def _of_shards(shards: int, rules: SlurmRules, environ: Mapping[str, str]) -> Assigned:
    per_gpu = _shards_per_gpu(rules, environ)
    if per_gpu is None:
        why = "the number of shards per GPU is unknown"
        return _unknown(shards, f"{why}; set {SHARDS_PER_GPU} or slurm.shards_per_gpu")
    gpus = len([each for each in environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each])
    if gpus > 1 and shards != gpus * per_gpu:
        return _unknown(
            shards, f"{shards} shards are on {gpus} GPUs, but how many are on each is unknown"
        )
    if shards > max(gpus, 1) * per_gpu:
        return _unknown(
            shards, f"a GPU has only {per_gpu} according to {SHARDS_PER_GPU} or the profile"
        )
    return Assigned(SLURM, shards / max(gpus, 1) / per_gpu, _words(shards))


def _unknown(shards: int, why: str) -> Assigned:
    why = f"no limit for Slurm's share of {_words(shards)}: {why}"
    return Assigned(SLURM, None, _words(shards), why)


def _words(shards: int) -> str:
    return "1 shard" if shards == 1 else f"{shards} shards"


def _shards_per_gpu(rules: SlurmRules, environ: Mapping[str, str]) -> int | None:
    """Read the number from the environment, the profile, or Slurm's controller."""
    text = environ.get(SHARDS_PER_GPU)
    if text:
        if not re.fullmatch("[1-9][0-9]{0,4}", text):
            raise UsageError(
                f"{SHARDS_PER_GPU}={text}; expected an integer from 1 to 99999",
                hint=f"export {SHARDS_PER_GPU}=8 if gres.conf gives each GPU 8 shards",
            )
        return int(text)
    if rules.shards_per_gpu is not None:
        return rules.shards_per_gpu
    node = environ.get("SLURMD_NODENAME")
    return None if not node else shards_in(_ask_controller(node))


@functools.cache
def _ask_controller(node: str) -> str:
    """Return what ``scontrol`` reports about the node; empty if it cannot be queried."""
    import subprocess  # here, because few jobs need it

    command = ["scontrol", "show", "node", node]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout if done.returncode == 0 else ""


def shards_in(node: str) -> int | None:
    """Return the shards per GPU from the output of ``scontrol show node``; None if unclear.

    It has a line such as ``Gres=gpu:2(S:0-1),shard:16(S:0-1)``, where a type may follow the name.
    """
    line = re.search(r"^\s*Gres=(\S+)", node, re.MULTILINE)
    counts = {"gpu": 0, "shard": 0}
    entries = re.sub(r"\([^)]*\)", "", line[1]).split(",") if line else []
    for entry in entries:
        name, _, rest = entry.partition(":")
        count = rest.rpartition(":")[2]
        if name in counts and count.isdigit():
            counts[name] += int(count)
    gpus, shards = counts["gpu"], counts["shard"]
    return shards // gpus if gpus and shards and shards % gpus == 0 else None
