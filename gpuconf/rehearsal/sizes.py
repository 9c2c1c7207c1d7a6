"""Sizes as a rehearsal's report writes them."""

from __future__ import annotations

from gpuconf.units import GIB, MIB, exact_size, mib, parse_size


def in_mib(size_bytes: int) -> str:
    """Whole MiB; a small amount with a decimal, so that it is not 0."""
    return mib(size_bytes) if size_bytes >= 100 * MIB else f"{tenths(size_bytes)} MiB"


def tenths(size_bytes: int) -> str:
    """MiB with a decimal, for a column headed MiB."""
    return f"{size_bytes / MIB:.1f}"


def to_the_byte(size_bytes: int) -> str:
    """MiB, and the bytes."""
    return f"{size_bytes / MIB:.1f} MiB ({size_bytes} bytes)"


def as_typed(size_bytes: int) -> str:
    """A size as somebody would type it: ``1.2GiB``, though that is no whole number of KiB."""
    for decimals in range(1, 4):
        text = f"{size_bytes / GIB:.{decimals}f}GiB"
        if size_bytes % MIB and parse_size(text) == size_bytes:
            return text
    return exact_size(size_bytes)
