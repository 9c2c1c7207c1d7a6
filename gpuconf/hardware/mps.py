"""NVIDIA's Multi-Process Service: a daemon that enforces a memory limit on each process.

Source: docs.nvidia.com/deploy/mps.  The control daemon keeps its pipe and a pid file in
CUDA_MPS_PIPE_DIRECTORY.  A program that cannot connect to it runs without MPS, and then nothing
enforces the limit.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

LIMIT = "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"
_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
_DEFAULT_PIPES = "/tmp/nvidia-mps"
_PID_FILE = "nvidia-cuda-mps-control.pid"
_INITIAL_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO in the kernel's proc_ns.h


def pipe_folder(environ: Mapping[str, str]) -> str:
    """Return the folder where a program looks for the daemon."""
    return environ.get(_PIPES) or _DEFAULT_PIPES


def is_running(environ: Mapping[str, str], root: str = "/") -> bool | None:
    """Whether an MPS control daemon runs where a program would look for it.

    None if its pipe exists but its process is not visible: it may be in another container.  Tests
    pass a file tree as ``root``.
    """
    folder = os.path.join(root, pipe_folder(environ).lstrip("/"))
    if not os.path.exists(os.path.join(folder, "control")):
        return False
    try:
        with open(os.path.join(folder, _PID_FILE), encoding="ascii", errors="replace") as file:
            pid = file.read().strip()
        if pid.isdecimal() and os.path.exists(os.path.join(root, "proc", pid)):
            return True
        namespace = os.readlink(os.path.join(root, "proc/self/ns/pid"))
    except OSError:
        return None
    return False if namespace == _INITIAL_PID_NAMESPACE else None
