"""Commands to paste for the probe's problems: shell, with comments.  Pure text."""

from __future__ import annotations

import shlex

from gpuconf.basics.units import GIB, MIB, exact_size, parse_size, sized
from gpuconf.commands.doctor import PROBE_TIMEOUT_S
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW
from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.measured import ProbedCard

AGAIN = "gpuconf doctor --probe"
SEE_KERNEL_LOG = "sudo dmesg -T | grep -iE 'xid|nvrm' | tail  # restart the machine if it goes on"

_LEAST_CONTEXT = 1536 * MIB
_SMALL_CARD = 4 * GIB


def with_more_time(timeout_s: float) -> str:
    """Show the cards, then probe again with twice the time, at least the default."""
    wanted = max(PROBE_TIMEOUT_S, 2 * timeout_s)
    return f"nvidia-smi; {AGAIN} --timeout {wanted:.0f}  # starting takes 5 to 10 s"


def leave_more_room(record: LiveRecord, least_bytes: int = 0) -> str:
    """A project profile that leaves more of the card for memory that no limit covers.

    ``least_bytes`` is the known minimum; the context of the current profile is doubled.
    """
    try:
        now_bytes = parse_size(record.fact("context") or "")
    except ValueError:  # unknown
        now_bytes = 0
    wanted = max(_LEAST_CONTEXT, 2 * now_bytes, least_bytes)
    size = exact_size(-(-wanted // (256 * MIB)) * 256 * MIB)
    base = record.fact("profile") or "shared-desktop"
    text = rf"extends: {base}\nmemory: {{context: {size}}}\n"
    return (
        f"mkdir -p .gpuconf && printf {shlex.quote(text)} > .gpuconf/roomy.yaml && "
        f"GPUCONF_PROFILE=roomy {AGAIN}"
    )


def leave_room_for_handles(record: LiveRecord, card: ProbedCard | None) -> str:
    """A profile with room for the handles and workspaces of cuDNN and cuBLAS."""
    is_small = card is not None and (card.total_bytes or _SMALL_CARD + 1) <= _SMALL_CARD
    if is_small and record.fact("profile") != "small-laptop":
        return f"GPUCONF_PROFILE=small-laptop {AGAIN}"
    return leave_more_room(record)


def free_the_card(card: ProbedCard | None, others: tuple[ProbedCard, ...] = ()) -> str:
    """The process to stop, or another card with free memory."""
    holders = [] if card is None else sorted(card.holders, key=lambda each: -(each.used_bytes or 0))
    stop = f"stop pid {holders[0].pid}" if holders else "stop what holds the card"
    free_bytes = 0 if card is None else card.free_bytes or 0
    roomy = [each for each in others if each.uuid and (each.free_bytes or 0) > 2 * free_bytes]
    if card is not None and roomy:
        best = max(roomy, key=lambda each: each.free_bytes or 0)
        return f"export CUDA_VISIBLE_DEVICES={best.uuid}  # or {stop}"
    return f"nvidia-smi  # then {stop}; without a GPU: export GPUCONF_PROFILE=cpu-only"


def by_hand(record: LiveRecord, only: int | None = None) -> str:
    """Run the child again, with the framework's full output."""
    profile = record.fact("profile")
    named = f"GPUCONF_PROFILE={shlex.quote(profile)} " if profile else ""
    alone = "" if only is None else f" --only {only}"
    package = record.framework.package
    alone += "" if record.framework is TENSORFLOW else f" --framework {package}"
    python = shlex.quote(record.fact("python") or "python")
    return f"{named}{python} -m gpuconf.commands.doctor.live.program{alone}"


def memory_lines(card: ProbedCard | None) -> tuple[str, ...]:
    """The memory that was free, the profile's limit, and the holders of the rest."""
    if card is None:
        return ()
    lines = []
    if card.free_bytes is not None and card.total_bytes is not None:
        lines.append(
            f"{sized(card.free_bytes)} of {sized(card.total_bytes)} were free before the probe"
        )
    if card.limit_bytes is not None:
        lines.append(f"the profile allows {sized(card.limit_bytes)}")
    lines += map(str, card.holders[:5])
    if len(card.holders) > 5:
        lines.append(f"and {len(card.holders) - 5} more processes")
    return tuple(lines)
