"""The host's RAM, which also backs a simulated GPU and the GPU of a GB10 or Jetson."""

from __future__ import annotations

import re

from gpuconf.basics.processes import text_in
from gpuconf.basics.units import KIB


def installed_bytes(root: str = "/") -> int | None:
    """Return the host's memory; None if unknown."""
    return _of_meminfo(root, "MemTotal")


def total_bytes(root: str = "/") -> int | None:
    """Return the host's memory, within its control group's limit; None if unknown."""
    installed, limit = installed_bytes(root), _of_group(root, "max")
    return installed if installed is None or limit is None else min(installed, limit)


def available_bytes(root: str = "/") -> int | None:
    """Return the host memory available to a new program, within its control group's limit.

    Tests pass a file tree as ``root``.  None if neither is known.
    """
    available = _of_meminfo(root, "MemAvailable")
    found = [] if available is None else [available]
    limit, used = _of_group(root, "max"), _of_group(root, "current")
    if limit is not None and used is not None:
        cached = re.search(
            r"^inactive_file (\d+)$", text_in(f"{root}/sys/fs/cgroup/memory.stat"), re.MULTILINE
        )
        kept = used - (int(cached[1]) if cached else 0)  # file pages can be reclaimed
        found.append(max(limit - kept, 0))
    return min(found, default=None)


def _of_meminfo(root: str, name: str) -> int | None:
    match = re.search(rf"^{name}:\s+(\d+) kB", text_in(f"{root}/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * KIB if match else None


def _of_group(root: str, name: str) -> int | None:
    text = text_in(f"{root}/sys/fs/cgroup/memory.{name}").strip()
    return int(text) if text.isdecimal() else None  # "max" means no limit
