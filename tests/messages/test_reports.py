"""Logs as people paste them: wrapped, quoted in sentences, with an exception of few words."""

from __future__ import annotations

import pytest

from gpuconf.messages import read

ON_CPU = (
    "OOM when allocating tensor with shape[64,128,128,64] and type float on "
    "/job:localhost/replica:0/task:0/device:CPU:0"
)
REFUSED = "OOM when allocating tensor with shape[64,128,128,64] and type float on /x/device:GPU:0"

CASES: dict[str, tuple[str, str, str]] = {
    "an exception without a phrase": (
        "tensorflow.python.framework.errors_impl.ResourceExhaustedError:\nwhat was not met yet",
        "oom-device-tensor", "failure",
    ),
    "an exception above its message": (
        "ResourceExhaustedError                    Traceback (most recent call last)\n<cell>",
        "oom-device-tensor", "failure",
    ),
    "an exception of torch alone": ("torch.cuda.OutOfMemoryError", "torch-oom", "failure"),
    "an exception of JAX, its message below": (
        "jax.errors.JaxRuntimeError:\nRESOURCE_EXHAUSTED: Out of memory while trying to allocate "
        "9 bytes", "jax-oom", "failure",
    ),
    "a full disk": (
        "ResourceExhaustedError: ckpt; No space left on device", "disk-full", "not-gpu",
    ),
    "the host, wrapped before the allocator": (
        f"{ON_CPU}\n by allocator cpu", "host-oom", "failure",
    ),
    "the host, wrapped within the words": (
        "ResourceExhaustedError: OOM when allocating tensor on device:CPU:0 by alloc\nator cpu",
        "host-oom", "failure",
    ),
    "the host, without an allocator": (ON_CPU, "host-oom", "failure"),
    "killed, in a forum's bold type": ("iter 3\n**Killed**", "host-oom", "failure"),
    "a worker that crashed": (
        "RuntimeError: DataLoader worker (pid 4) is killed by signal: Aborted.",
        "not-a-gpu-problem", "not-gpu",
    ),
    "a worker that was killed": (
        "RuntimeError: DataLoader worker (pid 4) is killed by signal: Killed.",
        "host-oom", "failure",
    ),
    "a dump alone": (
        "I tensorflow/core/common_runtime/bfc_allocator.cc:1] 4 Chunks of size 488374272 totalling "
        "1.82GiB\nStats: \nLimit: 10619240448\nInUse: 2438000000", "oom-device-tensor", "failure",
    ),
    "a traceback whose end stands in a sentence": (
        "It ends with `RuntimeError: Physical devices cannot be modified after being initialized`\n"
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    main()',
        "late-config", "failure",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_cause_and_severity(name: str) -> None:
    """What it is does not hang on how it was pasted."""
    text, cause, severity = CASES[name]
    found = read(text)
    assert (found.cause, found.severity) == (cause, severity)


def test_a_reporters_sentence_is_no_line_of_the_log() -> None:
    """It is neither counted nor shown, where the log itself has the words."""
    (shown,) = read(f"I get this error: {REFUSED}\nW x.cc:1] {REFUSED}").evidence
    assert (shown.line, shown.lines) == (2, 1)
    (alone,) = read(f"I get this error: {REFUSED}").evidence
    assert alone.line == 1


def test_figures_with_commas() -> None:
    """CuPy writes thousands so."""
    message = "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 805,306,368 bytes (x)."
    assert read(message).facts.request.size_bytes == 805306368
