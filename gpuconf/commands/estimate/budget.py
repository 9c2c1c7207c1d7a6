"""The memory limit and the GPU: the memory needed beyond the model's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.basics.units import mib_figure, mib_figures, sized
from gpuconf.machine.cards import Gpu
from gpuconf.machine.cards.system_memory import (
    CONTEXT_BYTES,
    LARGEST_MIB,
    SYSTEM_MEMORY_MIB,
    system_memory_bytes,
)

_NAMES = {"tensorflow": "TensorFlow", "jax": "JAX"}


class Budget(NamedTuple):
    """The source of the limit and the GPU, if known.

    ``arithmetic`` is the calculation of the limit, line by line. With ``allow_growth``, memory is
    allocated in regions, not all at once.
    """

    source: str | None = None
    arithmetic: tuple[str, ...] = ()
    gpu: Gpu | None = None
    allow_growth: bool = True


def limit_lines(
    peak_bytes: int,
    limit_bytes: int,
    budget: Budget,
    *,
    fits: bool | None = None,
    backend: str = "tensorflow",
) -> Iterator[str]:
    """Yield how the limit was calculated, what is left of it, and why the batch fits or not."""
    yield from budget.arithmetic
    left = limit_bytes - peak_bytes
    source = f" ({budget.source})" if budget.source else ""
    _, peak, rest = mib_figures([0, peak_bytes, left])
    yield _row(" ", mib_figure(limit_bytes), f"{_NAMES[backend]} may use{source}")
    yield _row("-", peak, f"the peak, {100 * peak_bytes / max(limit_bytes, 1):.0f} % of it")
    if left < 0:
        yield _row("=", rest.lstrip("-"), "too little")
    elif fits is False:
        yield _row("=", rest, "free, but too fragmented for the largest request, or too little")
        more = "; --no-growth shows what a single region would do" if budget.allow_growth else ""
        yield f"{' ' * 15}to be safe{more}"
    else:
        yield _row("=", rest, "left")


def card_lines(peak_bytes: int, budget: Budget, *, backend: str = "tensorflow") -> Iterator[str]:
    """Yield how much memory must be free on a GPU for this peak."""
    needed = peak_bytes + CONTEXT_BYTES
    peak, context = mib_figures([peak_bytes, CONTEXT_BYTES])
    yield _row(" ", peak, "the peak")
    yield _row("+", context, "the CUDA context (300 to 600 MB)")
    alone = (
        f"TensorFlow reserves another {_reserve(needed, budget.gpu)}"
        if backend == "tensorflow"
        else "JAX reserves 75 % of the GPU"
    )
    yield _row("=", mib_figure(needed), f"needed free on the GPU; without a limit, {alone}")
    if budget.gpu is not None:
        yield _card(budget.gpu)


def _row(sign: str, figure: str, words: str) -> str:
    return f"{sign} {figure:>7} MiB  {words}"


def _reserve(needed_bytes: int, gpu: Gpu | None) -> str:
    if gpu is None or gpu.compute_capability is None:
        return f"{min(SYSTEM_MEMORY_MIB.values())} to {LARGEST_MIB} MiB (by generation)"
    major, minor = gpu.compute_capability
    available = max((gpu.free_bytes or 0) - CONTEXT_BYTES, needed_bytes)
    return f"{sized(system_memory_bytes(available, major))} (compute capability {major}.{minor})"


def _card(gpu: Gpu) -> str:
    free = "an unknown amount" if gpu.free_bytes is None else sized(gpu.free_bytes)
    total = "" if gpu.total_bytes is None else f" of {sized(gpu.total_bytes)}"
    name = f" {gpu.name}" if gpu.name else ""
    return f"GPU {gpu.index}{name}: {free}{total} free now"
