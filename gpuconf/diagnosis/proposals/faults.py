"""Kernels that fail, and cards that do."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Facts, Proposal


def for_fault(facts: Facts) -> Iterator[Proposal]:
    """The kernel's log first; then which operation it was."""
    yield Proposal(
        "read what the driver wrote",
        "an Xid tells a program's fault (13, 31) from the card's (48, 79, 94, 95, 119)",
        "command",
        "sudo dmesg | grep -i -e xid -e nvrm; nvidia-smi -q -d ECC,PAGE_RETIREMENT",
    )
    if "xid" not in facts.details:
        yield Proposal(
            "run it once more with CUDA waiting after each kernel",
            "the message otherwise comes from a later operation than the one that failed",
            "command",
            "CUDA_LAUNCH_BLOCKING=1 python train.py",
        )
    yield Proposal(
        "have the doctor look at the card's health",
        "memory errors, temperature, power and what the driver counted",
        "command",
        "gpuconf doctor cards",
    )
