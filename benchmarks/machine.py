"""The facts that all figures depend on, for the head of each table."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path


def machine(*packages: str) -> str:
    """One line: the CPU, its load, and the versions of Python and these packages."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, "unknown CPU")
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    python = f"Python {platform.python_version()}"
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    told = "; ".join([python, *([", ".join(versions)] if versions else [])])
    return f"{cpu}, {os.cpu_count()} cores, {load}; {told}"
