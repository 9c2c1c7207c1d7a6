"""Parse and format sizes, shares and durations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate, pairwise
from typing import NamedTuple

KIB = 1024
MIB = 1024**2
GIB = 1024**3

_BYTES_PER_UNIT = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": KIB,
    "mib": MIB,
    "gib": GIB,
    "tib": 1024**4,
}
_ALMOST_A_SIZE = re.compile(
    r"\s*([0-9]{1,6})(?:[.,]([0-9]{1,3}))?\s*([KMGT]?)[A-Z]*\s*", re.IGNORECASE
)
_SECONDS_PER_UNIT = {"s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
_WRITTEN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*(%|[A-Za-z]*)\s*")
# More than any accelerator has; a larger figure is a typing error.
LARGEST_SIZE = 1024**5


class Amount(NamedTuple):
    """An amount of memory: a number of bytes, or a share (0 to 1) of a total.

    Exactly one of ``size_bytes`` and ``share`` is set.
    """

    size_bytes: int | None = None
    share: float | None = None

    def of(self, whole_bytes: int | None) -> int | None:
        """Return the amount in bytes; None if it is a share of an unknown total."""
        if self.share is None:
            return self.size_bytes
        # Round first: 0.29 × 100 MiB is 30408703.999999996 in floats, which would become 28 MiB.
        return None if whole_bytes is None else int(round(self.share * whole_bytes, 3))

    def __str__(self) -> str:
        if self.share is not None:
            return f"{self.share * 100:.10f}".rstrip("0").rstrip(".") + "%"
        return exact_size(self.size_bytes or 0)


def parse_size(text: str) -> int:
    """Return the bytes in ``text``, such as ``6GiB``, ``512 MB`` or ``1.5 GiB``.

    KiB, MiB, GiB and TiB are powers of 1024; kB, MB, GB and TB are powers of 1000, as in IEC
    80000-13; letter case does not matter.  A fraction of a byte is dropped.

    Raises ValueError, with the rule in its text, for anything else: a missing unit, a sign, NaN, or
    more than a pebibyte.
    """
    number, unit = _number_and_unit(text)
    factor = _BYTES_PER_UNIT.get(unit.lower())
    if factor is None:
        raise ValueError("expected a number and a unit, such as 6GiB, 512MiB, or 900 MB")
    size_bytes = _times(number, factor)
    if size_bytes > LARGEST_SIZE:
        raise ValueError("expected at most 1 PiB (1024 TiB)")
    return size_bytes


def parse_size_argument(text: str) -> int:
    """`parse_size` for a command line: its ValueError also suggests what may have been meant."""
    try:
        return parse_size(text)
    except ValueError as error:
        meant = meant_size(text)
        if meant is None or "at most" in str(error):
            raise
        raise ValueError(f"{error}; did you mean {meant}?") from None


def meant_size(text: str) -> str | None:
    """Return the size that ``text`` was most likely meant to be; None if it is not close to one.

    It is 4GiB for ``4``, ``4G`` and ``4 gigs``; for a bare number from 100 up it is in MiB, the
    unit of TensorFlow's memory_limit.
    """
    match = _ALMOST_A_SIZE.fullmatch(text.strip())
    if match is None:
        return None
    number = f"{match[1]}.{match[2]}" if match[2] else match[1]
    unit = match[3].upper() or ("M" if float(number) >= 100 else "G")
    return f"{number}{unit}iB"


def _number_and_unit(text: str) -> tuple[str, str]:
    """Split ``1.5 GiB`` into ``1.5`` and ``GiB``; return two empty strings for other forms."""
    match = _WRITTEN.fullmatch(text) if len(text) <= 64 else None
    return (match[1], match[2]) if match else ("", "")


def _times(number: str, factor: int) -> int:
    """Return ``number × factor`` in bytes, exactly: floats are off above 8 PiB, and for 0.1."""
    whole, _, decimals = number.partition(".")
    digits: int = int(f"{whole}{decimals}") * factor
    return digits // int(10 ** len(decimals))


def parse_share(text: str) -> float:
    """Return the share (0 to 1) in a percentage such as ``70%``; raise ValueError otherwise."""
    number, unit = _number_and_unit(text)
    if unit != "%" or not 0 <= float(number) <= 100:
        raise ValueError("expected a percentage from 0% to 100%, such as 70%")
    return float(number) / 100


def parse_amount(text: str) -> Amount:
    """Return the size or percentage in ``text``; raise ValueError for anything else."""
    if text.rstrip().endswith("%"):
        return Amount(share=parse_share(text))
    return Amount(size_bytes=parse_size(text))


def parse_duration(text: str) -> float:
    """Return the seconds in ``text``, such as ``90s``, ``10min`` or ``1.5h``.

    Raises ValueError for a missing unit, a sign, or more than 7 days.
    """
    number, unit = _number_and_unit(text)
    factor = _SECONDS_PER_UNIT.get(unit.lower())
    if factor is None:
        raise ValueError("expected a number and a unit (s, min, or h), such as 10min")
    seconds = float(number) * factor
    if seconds > 7 * 24 * 3600:
        raise ValueError("expected at most 7 days (168h)")
    return seconds


def sized(size_bytes: float, *, cut: bool = False) -> str:
    """Format ``size_bytes`` for people: ``6144 MiB``, ``37.5 MiB``, ``12 KiB``, ``300 B``.

    From 100 MiB up, the result is in whole MiB, whatever the size. That is the unit of nvidia-smi
    and of TensorFlow's log; sums add up, and a limit of 5735 MiB can be distinguished from a peak
    of 5701 MiB. Below that, it has one decimal place unless that is 0; below 1 MiB it is in KiB,
    and below 1 KiB in bytes. Values are rounded to the nearest displayed digit. With ``cut`` the
    result is always in whole MiB, rounded down as TensorFlow does with a limit. `exact_size`
    formats a size that can be parsed again.
    """
    if cut:
        return f"{int(size_bytes // MIB)} MiB"
    if size_bytes < 0:
        return f"-{sized(-size_bytes)}"
    for unit, factor in (("MiB", MIB), ("KiB", KIB)):
        if size_bytes >= factor or size_bytes == 0:
            number = round(size_bytes / factor, 1 if size_bytes < 99.95 * factor else None)
            return f"{number:g} {unit}" if number < 100 else f"{number:.0f} {unit}"
    return f"{round(size_bytes)} B"


def mib_figure(size_bytes: float) -> str:
    """Format ``size_bytes`` for a column headed MiB, or a sum in MiB: ``5735.0``."""
    return mib_figures([size_bytes])[0]


def mib_figures(summands_bytes: Iterable[float]) -> list[str]:
    """Format each summand like `mib_figure`, so that the figures add up to the figure of the sum.

    Each is the difference between consecutive rounded running totals, at most 0.1 off.
    """
    totals = [round(total * 10 / MIB) for total in accumulate(summands_bytes, initial=0)]
    return [f"{(after - before) / 10:.1f}" for before, after in pairwise(totals)]


def exact_size(size_bytes: int) -> str:
    """Format ``size_bytes`` as a setting, without loss: ``6GiB``, ``1500MiB``, ``1.2GiB``,
    ``1001B``.

    Uses the largest binary unit that gives a whole number; a decimal number of GiB if that parses
    to the same bytes; or a decimal unit if the size was given in one, such as ``4GB``.
    """
    for unit, factor in (("GiB", GIB), ("MiB", MIB)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    for decimals in range(1, 4):
        text = f"{size_bytes / GIB:.{decimals}f}GiB"
        if MIB <= size_bytes <= LARGEST_SIZE and parse_size(text) == size_bytes:
            return text
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("KiB", KIB)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return f"{size_bytes}B"


def short_duration(seconds: float) -> str:
    """Format ``seconds`` for people: ``90s``, ``10min``, ``2h``, ``forever``."""
    if seconds == float("inf"):
        return "forever"
    for unit, factor in (("h", 3600), ("min", 60)):
        if seconds >= factor and seconds % factor == 0:
            return f"{seconds / factor:g}{unit}"
    # No exponents, which `parse_duration` would reject; milliseconds are precise enough.
    return f"{seconds:.3f}".rstrip("0").rstrip(".") + "s"
