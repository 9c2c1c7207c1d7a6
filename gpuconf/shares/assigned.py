"""What a scheduler has assigned to this process."""

from __future__ import annotations

from typing import NamedTuple

# Slurm and KAI set these where they have assigned a part of a GPU.
SHARDS, PORTION = "SLURM_SHARDS_ON_NODE", "GPU_PORTION"
NO_GPU = "no GPU"


class Assigned(NamedTuple):
    """The part of each GPU that ``scheduler`` (ray, slurm) has assigned: 1 for whole ones.

    ``part`` is 0 for no GPU at all, and None where it cannot be known; ``why`` says so to people.
    ``words`` are the whole of it, such as "0.4 of GPU 0"; another assignment has other words.
    """

    scheduler: str
    part: float | None
    words: str = ""
    why: str | None = None
