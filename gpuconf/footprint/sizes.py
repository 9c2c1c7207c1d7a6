"""Sizes as an estimate's report and picture write them."""

from __future__ import annotations

from gpuconf.units import GIB, KIB, MIB


def sized(size_bytes: int) -> str:
    """``size_bytes`` in three digits or so: ``3.05 GiB``, ``6 GiB``, ``293 MiB``, ``12.4 MiB``."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB)):
        if size_bytes and size_bytes % factor == 0 and abs(size_bytes) < 1024 * factor:
            return f"{size_bytes // factor} {unit}"
    if abs(size_bytes) >= GIB:
        return f"{size_bytes / GIB:.2f} GiB"
    if abs(size_bytes) >= 100 * MIB:
        return f"{size_bytes / MIB:.0f} MiB"
    if abs(size_bytes) >= MIB:
        return f"{size_bytes / MIB:.1f} MiB"
    return f"{size_bytes / KIB:.1f} KiB" if abs(size_bytes) >= KIB else f"{size_bytes} B"


def in_mib(size_bytes: float) -> str:
    """MiB with a decimal: what is to be added up."""
    return f"{size_bytes / MIB:.1f}"


def in_column(size_bytes: int) -> str:
    """MiB for a narrow column that says so: a decimal below 100, ``-`` for nothing."""
    if size_bytes == 0:
        return "-"
    return in_mib(size_bytes) if size_bytes < 99.95 * MIB else f"{size_bytes / MIB:.0f}"
