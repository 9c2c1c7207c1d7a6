"""The proposals for each family of causes: facts -> a ranked list of changes to paste.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals import (
    configuration,
    device_memory,
    faults,
    full_disk,
    handles,
    host_memory,
    installation,
    jax_memory,
    torch_memory,
    whole_arrays,
)
from gpuconf.commands.explain.proposals.wording import SEE_OTHERS, little_is_free
from gpuconf.support.failures.causes import Severity
from gpuconf.support.failures.reading import LogFacts

_Family = Callable[[LogFacts], Iterable[Proposal]]

_FAMILIES: dict[str, _Family] = {
    "oom-device-tensor": device_memory.for_tensor,
    "whole-array-copied": whole_arrays.for_whole_array,
    "fragmentation": device_memory.for_fragmentation,
    "oom-device-startup": device_memory.for_startup,
    "cudnn-handle-alloc": handles.for_handles,
    "cublas-alloc": handles.for_handles,
    "cudnn-internal": handles.for_cudnn,
    "growth-mismatch": configuration.for_growth,
    "late-config": configuration.for_late,
    "missing-libs": installation.for_libraries,
    "driver-mismatch": installation.for_driver,
    "compute-capability": installation.for_capability,
    "no-device": installation.for_no_device,
    "xla-toolchain": installation.for_toolchain,
    "host-oom": host_memory.for_host,
    "disk-full": full_disk.for_full_disk,
    "jax-oom": jax_memory.for_jax,
    "torch-oom": torch_memory.for_torch,
    "illegal-address": faults.for_fault,
    "gpu-only-operation": installation.for_gpu_only,
}


def proposals_for(cause: str, severity: Severity, facts: LogFacts) -> tuple[Proposal, ...]:
    """The changes for a cause, most promising first; none if the GPU is not the problem.

    A problem that the run survived needs no change, unless something still is not as intended.
    """
    family = _FAMILIES.get(cause)
    if family is None:
        return ()
    if severity == "warning-only" and cause not in _WORTH_A_CHANGE:
        return tuple(_where_others_hold_it(cause, facts))
    return tuple(dict.fromkeys(family(facts)))


def _where_others_hold_it(cause: str, facts: LogFacts) -> Iterable[Proposal]:
    """The other processes, if the run continues in the little memory that they leave."""
    if cause == "oom-device-startup" and little_is_free(facts):
        yield SEE_OTHERS


# Worth a change even if the run continued: a setting had no effect, the card is not fully used, or
# a file is missing.
_WORTH_A_CHANGE = (
    "late-config", "growth-mismatch", "compute-capability", "driver-mismatch", "no-device",
    "disk-full",
)  # fmt: skip
