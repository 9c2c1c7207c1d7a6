"""A scheduler's assignment to this process."""

from __future__ import annotations

from typing import NamedTuple

SHARDS = "SLURM_SHARDS_ON_NODE"  # set if Slurm has assigned part of a GPU
# What Slurm says of a job's GPUs.
SLURM_VARIABLES = ("SLURM_GPUS_ON_NODE", "SLURM_JOB_GPUS", "SLURM_STEP_GPUS", SHARDS)
NO_GPU = "no GPU"


class Assigned(NamedTuple):
    """The part of each GPU that ``scheduler`` (ray, slurm) has assigned; 1 for whole GPUs.

    ``part`` is 0 for no GPU at all, and None if it is unknown; ``why`` explains both to people.
    ``words`` describe the whole assignment, such as "0.4 of GPU 0"; different assignments have
    different words.
    """

    scheduler: str
    part: float | None
    words: str = ""
    why: str | None = None
