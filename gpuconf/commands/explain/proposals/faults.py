"""Failing kernels and failing cards."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.support.failures.reading import LogFacts
from gpuconf.support.failures.xids import known_xids

_BLOCKING = Proposal(
    "run it once more with CUDA waiting after each kernel",
    "the message otherwise comes from a later operation than the one that failed",
    "command",
    "CUDA_LAUNCH_BLOCKING=1 python train.py",
)
_HARDWARE = Proposal(
    "restart the machine; if it happens again, have the card checked",
    "{}: that is the card, its power, cooling or slot, and no program's fault; on a rented or "
    "shared machine ask for another one",
    "command",
    "nvidia-smi -q -d ECC,ROW_REMAPPER,TEMPERATURE; sudo dmesg | grep -i -e xid -e nvrm -e pcie",
)
_KERNELS_LOG = Proposal(
    "read the driver's messages",
    "an Xid shows whose fault it is: the program (13, 31) or the card (48, 79, 94, 95, 119)",
    "command",
    "sudo dmesg | grep -i -e xid -e nvrm; nvidia-smi -q -d ECC,PAGE_RETIREMENT",
)
_HEALTH = Proposal(
    "have the doctor check the card's health",
    "memory errors, temperature, power and the driver's counters",
    "command",
    "gpuconf doctor cards",
)


def for_fault(facts: LogFacts) -> Iterator[Proposal]:
    """The meaning of an Xid; otherwise the operation that failed."""
    xids = facts.details.get("xid")
    known = [xid for xid in xids if xid in known_xids()] if isinstance(xids, list) else []
    for xid in known:
        meaning = known_xids()[xid]
        yield Proposal(f"Xid {xid}: {meaning.means}", meaning.remedy, "command", meaning.command)
    assertion = facts.details.get("assertion")
    if assertion is not None:
        yield Proposal(
            "look for a label or an index that is out of range",
            f"the kernel wanted {assertion}; as many classes as labels, ids below the size of the "
            "embedding",
            "code",
            "print(labels.min(), labels.max())   # must be from 0 to the number of classes - 1",
        )
    lost = facts.details.get("card_lost")
    if lost is not None:
        if not known:
            yield _HARDWARE._replace(reason=_HARDWARE.reason.format(lost))
        yield _KERNELS_LOG
        yield _HEALTH
        return
    if not known:
        yield _BLOCKING
    if assertion is None:
        if xids is None:
            yield _KERNELS_LOG
        yield _HEALTH
