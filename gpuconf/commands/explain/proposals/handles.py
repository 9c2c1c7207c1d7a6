"""cuDNN and cuBLAS: memory for their handles, and matching versions."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.commands.explain.diagnosis import Proposal
from gpuconf.commands.explain.proposals.configuration import GROWTH
from gpuconf.commands.explain.proposals.wording import (
    SEE_OTHERS,
    SESSION_GROWTH,
    is_version_1,
    little_is_free,
    needs_run,
    profile,
)
from gpuconf.support.failures.reading import LogFacts

_WHY = (
    "handles and workspaces of cuDNN and cuBLAS come on top of what the framework takes; a process "
    "that took everything cannot make them"
)
_SMALLER_STEP = Proposal(
    "a smaller batch, so that the card has room for the handle",
    _WHY,
    "batch",
    "batch_size = batch_size // 2",
)
_BLOCKING = Proposal(
    "run it once more with CUDA waiting after each kernel",
    "in PyTorch a label or an index out of range ends in this message too, some operations later",
    "command",
    "CUDA_LAUNCH_BLOCKING=1 python train.py",
)


def for_handles(facts: LogFacts) -> Iterator[Proposal]:
    """Leave memory beyond the framework's own; if little is free, the other processes first."""
    if facts.framework == "torch":
        yield from _of_torch(facts)
        return
    # With growth on, memory is left unless other processes hold it.
    crowded = little_is_free(facts) or "growth-set" in facts.signs
    if crowded:
        yield SEE_OTHERS
    has_sessions = is_version_1(facts) and facts.framework not in ("torch", "jax")
    if needs_run(facts) or not has_sessions:
        yield _room(facts)
    of_tensorflow_2 = facts.framework != "jax" and not has_sessions
    if of_tensorflow_2 and "growth-set" not in facts.signs:
        yield Proposal("take memory as it is needed, on every GPU", _WHY, "code", GROWTH)
    if has_sessions and "growth-set" not in facts.signs:
        yield Proposal("take memory as it is needed", _WHY, "code", SESSION_GROWTH)
    if not crowded:
        yield SEE_OTHERS


def _of_torch(facts: LogFacts) -> Iterator[Proposal]:
    """The first matrix product creates the handle: the card is full, or a kernel failed before."""
    status = str(facts.details.get("status", "ALLOC"))
    asks_for_memory = any(word in status for word in ("ALLOC", "NOT_INITIALIZED", "INTERNAL"))
    first = [SEE_OTHERS, _SMALLER_STEP, _BLOCKING]
    yield from first if asks_for_memory else [_BLOCKING, SEE_OTHERS, _SMALLER_STEP]


def _room(facts: LogFacts) -> Proposal:
    if facts.framework == "jax":
        return Proposal(
            "leave room on the card beside JAX's own memory",
            _WHY,
            "command",
            "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.6",
        )
    return profile(
        facts,
        "leave room on the card beside TensorFlow's own memory",
        _WHY,
        "extends: shared-desktop   # allow_growth, and a limit with room beside it",
        "memory: {context: 1500MiB}",
        options="--set memory.context=1500MiB",
    )


def for_cudnn(facts: LogFacts) -> Iterator[Proposal]:
    """Most often a full card, otherwise another version of cuDNN."""
    driver = facts.details.get("perhaps_insufficient_driver")
    if driver is not None:
        yield Proposal(
            f"update the NVIDIA driver, which is {driver}",
            "cuDNN itself says that it may be too old",
            "command",
            "nvidia-smi --query-gpu=name,driver_version --format=csv",
        )
    yield from for_handles(facts)
    if facts.framework in ("torch", "jax") or is_version_1(facts):
        return
    yield Proposal(
        "have the probe try a convolution",
        "it shows whether the card is full or cuDNN itself does not work",
        "command",
        "gpuconf doctor --probe",
    )
    yield Proposal(
        "let pip bring the cuDNN that TensorFlow was built with",
        "a cuDNN of the system, found through LD_LIBRARY_PATH, may be another version",
        "command",
        "unset LD_LIBRARY_PATH; pip install 'tensorflow[and-cuda]'",
    )
