"""A scheduler's assignment to this process."""

from __future__ import annotations

from typing import NamedTuple

# Slurm and KAI set these if they have assigned part of a GPU.
SHARDS, PORTION = "SLURM_SHARDS_ON_NODE", "GPU_PORTION"
NO_GPU = "no GPU"


class Assigned(NamedTuple):
    """The part of each GPU that ``scheduler`` (ray, slurm, kai) has assigned; 1 for whole GPUs.

    ``part`` is 0 for no GPU at all, and None if it is unknown; ``why`` explains both to people.
    ``words`` describe the whole assignment, such as "0.4 of GPU 0"; different assignments have
    different words.
    """

    scheduler: str
    part: float | None
    words: str = ""
    why: str | None = None
