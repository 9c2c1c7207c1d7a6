"""The card to rehearse for: as asked, or as this machine's first GPU is now."""

from __future__ import annotations

from gpuconf.errors import UsageError
from gpuconf.hardware import Gpu, read_inventory
from gpuconf.hardware.host_memory import available_bytes
from gpuconf.simcard import CardSpec
from gpuconf.units import GIB, sized

_DEFAULT_CARD_BYTES = 8 * GIB


def target_card(
    total_bytes: int | None, used_bytes: int | None, context_bytes: int, *, count: int
) -> CardSpec:
    """The card asked for; without a size a copy of this machine's first GPU, else one of 8 GiB.

    Raises UsageError if nothing of it is left for TensorFlow.
    """
    spec = CardSpec(total_bytes=_DEFAULT_CARD_BYTES, context_bytes=context_bytes, count=count)
    if total_bytes is None:
        gpus = read_inventory().gpus
        if gpus:
            spec = _like(gpus[0], spec)
    else:
        spec = spec._replace(total_bytes=total_bytes)
    if used_bytes is not None:
        spec = spec._replace(used_bytes=used_bytes)
    if spec.used_bytes + spec.context_bytes >= spec.total_bytes:
        raise UsageError(
            f"nothing is left of the card: {sized(spec.used_bytes)} used and "
            f"{sized(spec.context_bytes)} for the CUDA context of {sized(spec.total_bytes)}",
            hint="give a larger --card, or a smaller --used or --context",
        )
    return spec


def _like(gpu: Gpu, spec: CardSpec) -> CardSpec:
    """``spec`` with what is known of a real GPU; the capability decides TensorFlow's reserve."""
    if gpu.total_bytes is None:
        return spec
    spec = spec._replace(total_bytes=gpu.total_bytes, used_bytes=gpu.used_bytes or 0)
    if gpu.compute_capability is None:
        return spec
    major, minor = gpu.compute_capability
    return spec._replace(compute_capability=f"{major}.{minor}")


def host_shortage(spec: CardSpec) -> str | None:
    """What to know where this machine has less memory than the card: it takes its place."""
    free = spec.count * (spec.total_bytes - spec.used_bytes)
    available = available_bytes()
    if available is None or available >= free:
        return None
    return (
        f"the card has {sized(free)} free and this machine {sized(available)}: a script that uses "
        "more than that is killed, without a verdict"
    )
