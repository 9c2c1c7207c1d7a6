"""The host's RAM, which also backs the memory of a simulated card."""

from __future__ import annotations

import os
import re

from gpuconf.units import KIB

_STATISTICS = "sys/fs/cgroup/memory.stat"


def available_bytes(root: str = "/") -> int | None:
    """Return the host memory available to a new program, within its control group's limit.

    Tests pass a file tree as ``root``.  None if neither is known.
    """
    meminfo = _text(root, "proc/meminfo")
    match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo, re.MULTILINE)
    found = [int(match[1]) * KIB] if match else []
    limit, used = (
        _text(root, f"sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current")
    )
    if limit.isdecimal() and used.isdecimal():  # "max" means no limit
        cached = re.search(r"^inactive_file (\d+)$", _text(root, _STATISTICS), re.MULTILINE)
        kept = int(used) - (int(cached[1]) if cached else 0)  # file pages can be reclaimed
        found.append(max(int(limit) - kept, 0))
    return min(found, default=None)


def _text(root: str, path: str) -> str:
    try:
        with open(os.path.join(root, path), encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
