"""A program that grows: each line is a number of MiB, to be allocated as one tensor and kept.

``python grower.py tensorflow`` or ``torch``.  It answers each line with ``ok``, ``refused`` or,
where it may not even begin, ``shortage``; ``-64`` lets the error for 64 MiB end the child.
The framework is imported once: at ``begin`` a child
takes over, until ``end``.
"""

import os
import sys
from typing import Any

import gpuconf.auto  # noqa: F401  # the first line of a script
from gpuconf import ShortageError

if "tensorflow" in sys.argv:
    import tensorflow as tf

    MISSING = tf.errors.ResourceExhaustedError

    def tensor(mib: int) -> Any:
        """Allocate on the GPU, without a kernel."""
        with tf.device("GPU:0"):
            return tf.raw_ops.Empty(shape=(mib, 1024, 256), dtype=tf.float32)
else:
    import torch

    MISSING = torch.cuda.OutOfMemoryError

    def tensor(mib: int) -> Any:
        """Allocate on the GPU, without a kernel."""
        return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def answer(mib: int, kept: list[Any]) -> str:
    try:
        kept.append(tensor(mib))
    except ShortageError:
        return "shortage"
    except MISSING:
        return "refused"
    return "ok"


def grow() -> None:
    """Answer lines until the last."""
    kept: list[Any] = []
    print("begun", flush=True)
    while (line := sys.stdin.readline().strip()) not in ("", "end"):
        if line.startswith("-"):
            tensor(-int(line))
        print(answer(int(line), kept), flush=True)


print("ready", flush=True)
while sys.stdin.readline():
    if os.fork() == 0:
        grow()
        os._exit(0)
    os.wait()
    print("ended", flush=True)
