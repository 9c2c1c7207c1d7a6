"""Shell commands with comments, to paste for the problems that the probe finds.  Pure text."""

from __future__ import annotations

import shlex

from gpuconf.basics.units import MIB, exact_size, parse_size, sized
from gpuconf.commands.doctor import PROBE_TIMEOUT_S
from gpuconf.commands.doctor.live.frameworks import TENSORFLOW
from gpuconf.commands.doctor.live.record import LiveRecord
from gpuconf.commands.doctor.probe_results import ProbedCard

AGAIN = "gpuconf doctor --probe"
SEE_KERNEL_LOG = "sudo dmesg -T | grep -iE 'xid|nvrm' | tail  # restart the machine if it continues"

_LEAST_CONTEXT = 1536 * MIB


def with_more_time(timeout_s: float) -> str:
    """Show the GPUs, then probe again with twice the time, at least the default."""
    wanted = max(PROBE_TIMEOUT_S, 2 * timeout_s)
    return f"nvidia-smi; {AGAIN} --timeout {wanted:.0f}  # starting takes 5 to 10 s"


def leave_more_room(record: LiveRecord, least_bytes: int = 0) -> str:
    """A project profile that leaves more of the GPU for memory that no limit covers.

    ``least_bytes`` is the known minimum; the context of the current profile is doubled.
    """
    try:
        now_bytes = parse_size(record.fact("context") or "")
    except ValueError:  # unknown
        now_bytes = 0
    wanted = max(_LEAST_CONTEXT, 2 * now_bytes, least_bytes)
    size = exact_size(-(-wanted // (256 * MIB)) * 256 * MIB)
    base = record.fact("profile") or "shared-desktop"
    return probe_with(record, f"extends: {base}\nmemory: {{context: {size}}}")


def probe_with(record: LiveRecord, profile: str) -> str:
    """Write a project profile, and probe again under it, in place of the one it extends."""
    base = record.fact("profile") or "shared-desktop"
    lines = [line.partition("  #")[0].rstrip() for line in profile.splitlines()]
    lines = [line for line in lines if not line.startswith("#")]
    text = "\\n".join(lines).replace("extends: shared-desktop", f"extends: {base}")
    return (
        f"mkdir -p .gpuconf && printf {shlex.quote(text + chr(92) + 'n')} > .gpuconf/roomy.yaml && "
        f"GPUCONF_PROFILE=roomy {AGAIN}"
    )


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
            f"{sized(card.free_bytes)} of {sized(card.total_bytes)} was free before the probe"
        )
    if card.limit_bytes is not None:
        lines.append(f"the profile allows {sized(card.limit_bytes)}")
    lines += map(str, card.holders[:5])
    if len(card.holders) > 5:
        lines.append(f"and {len(card.holders) - 5} more processes")
    return tuple(lines)
