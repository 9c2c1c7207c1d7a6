"""What lies on a card besides the model: lines of the budget, none of them the model's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.footprint.sizes import sized
from gpuconf.hardware import Gpu
from gpuconf.hardware.reserve import LARGEST_RESERVE_MIB, RESERVES_MIB, reserve_bytes
from gpuconf.units import MIB, mib

CONTEXT_BYTES = 450 * MIB  # real ones take some 300 to 600 MB


class Budget(NamedTuple):
    """Where the limit comes from, and the card, as far as there are any.

    ``arithmetic`` is the sum that led to the limit, line by line.
    """

    source: str | None = None
    arithmetic: tuple[str, ...] = ()
    gpu: Gpu | None = None


def limit_lines(
    peak_bytes: int, limit_bytes: int, budget: Budget, *, fits: bool | None = None
) -> Iterator[str]:
    """How the limit came about, and what is left of it; or why it does not fit nevertheless."""
    yield from budget.arithmetic
    left = limit_bytes - peak_bytes
    source = f" ({budget.source})" if budget.source else ""
    yield _row(" ", limit_bytes, f"TensorFlow may use{source}")
    yield _row("-", peak_bytes, f"the peak, {100 * peak_bytes / max(limit_bytes, 1):.0f} % of it")
    if left < 0:
        yield _row("=", -left, "too little")
    elif fits is False:
        yield _row("=", left, "left, but in pieces too small for what is asked for, or less")
        yield " " * 13 + "than is needed to be safe; --no-growth says what one region would do"
    else:
        yield _row("=", left, "left")


def card_lines(peak_bytes: int, budget: Budget) -> Iterator[str]:
    """What must be free on a card for that peak."""
    needed = peak_bytes + CONTEXT_BYTES
    yield _row(" ", peak_bytes, "the peak")
    yield _row("+", CONTEXT_BYTES, "the CUDA context, about (300 to 600 MB)")
    words = "must be free on the card; where nobody sets a limit, TensorFlow leaves"
    yield _row("=", needed, f"{words} {_reserve(needed, budget.gpu)} untouched besides")
    if budget.gpu is not None:
        yield _card(budget.gpu)


def _row(sign: str, size_bytes: int, words: str) -> str:
    return f"{sign} {sized(size_bytes):>9}  {words}"


def _reserve(needed_bytes: int, gpu: Gpu | None) -> str:
    if gpu is None or gpu.compute_capability is None:
        return f"{min(RESERVES_MIB.values())} to {LARGEST_RESERVE_MIB} MiB (by its generation)"
    major, minor = gpu.compute_capability
    available = max((gpu.free_bytes or 0) - CONTEXT_BYTES, needed_bytes)
    return f"{mib(reserve_bytes(available, major))} (compute capability {major}.{minor})"


def _card(gpu: Gpu) -> str:
    free = "an unknown amount" if gpu.free_bytes is None else sized(gpu.free_bytes)
    total = "" if gpu.total_bytes is None else f" of {sized(gpu.total_bytes)}"
    name = f" {gpu.name}" if gpu.name else ""
    return f"GPU {gpu.index}{name}: {free}{total} free now"
