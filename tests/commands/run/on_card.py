"""What tests of runs share: the variables of a GPU, and the leases on it."""

from __future__ import annotations

import os
from pathlib import Path

from gpuconf.simcard import Card


def environ(card: Card) -> dict[str, str]:
    """What makes a program see the GPU, and its leases."""
    base = {"LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", "")}
    return card.environment({name: value for name, value in base.items() if value})


def leases(card: Card) -> list[Path]:
    """The files of the leases of the GPU."""
    return sorted(Path(f"{card.path}.leases").glob("GPU-*/lease.*"))
