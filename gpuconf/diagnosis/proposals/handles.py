"""cuDNN and cuBLAS: room for their handles, and versions that go together."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.diagnosis.diagnosis import Facts, Proposal
from gpuconf.diagnosis.proposals.wording import (
    SEE_OTHERS,
    SESSION_GROWTH,
    is_version_1,
    profile,
)


def for_handles(facts: Facts) -> Iterator[Proposal]:
    """Leave room beside TensorFlow's own memory."""
    why = (
        "handles and workspaces of cuDNN and cuBLAS come on top of what TensorFlow takes; a "
        "process that took everything cannot make them"
    )
    if is_version_1(facts):
        yield Proposal("take memory as it is needed", why, "code", SESSION_GROWTH)
    else:
        yield profile(
            "leave room on the card beside TensorFlow's own memory",
            why,
            "extends: shared-desktop   # allow_growth, and a limit with room beside it",
            "memory: {keep_free: 1500MiB}",
        )
    yield SEE_OTHERS


def for_cudnn(facts: Facts) -> Iterator[Proposal]:
    """Most often a full card; else a cuDNN of another version."""
    driver = facts.details.get("perhaps_insufficient_driver")
    if driver is not None:
        yield Proposal(
            f"update the NVIDIA driver, which is {driver}",
            "cuDNN itself says that it may be too old",
            "command",
            "nvidia-smi --query-gpu=name,driver_version --format=csv",
        )
    yield from for_handles(facts)
    yield Proposal(
        "have the probe try a convolution",
        "it tells whether the card is full or cuDNN itself does not work",
        "command",
        "gpuconf doctor --probe",
    )
    if not is_version_1(facts):
        yield Proposal(
            "let pip bring the cuDNN that TensorFlow was built with",
            "a cuDNN of the system, found through LD_LIBRARY_PATH, may be another version",
            "command",
            "unset LD_LIBRARY_PATH; pip install 'tensorflow[and-cuda]'",
        )
