"""The facts that all figures depend on, for the head of each table."""

from __future__ import annotations

import datetime
import functools
import os
import platform
from importlib import metadata
from pathlib import Path


def machine(*packages: str) -> str:
    """One line: the date, the CPU, its load, and the versions of Python and these packages."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    cpu = next(names, "unknown CPU")
    load = f"load {os.getloadavg()[0]:.1f} at the start"
    versions = [f"Python {platform.python_version()}"]
    versions += [f"{name} {version(name)}" for name in packages]
    today = datetime.date.today().isoformat()
    return f"{today}: {cpu}, {os.cpu_count()} cores, {load}; {', '.join(versions)}"


@functools.cache
def version(name: str) -> str:
    """The installed version in this Python, which children use too; "none" without it."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "none"
