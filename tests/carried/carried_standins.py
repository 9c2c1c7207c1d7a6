"""Packages that bear a framework's name, as old Pythons can run them, and what tests do with them.

They have as much of torch as the carried code touches; TensorFlow itself is in the slow tests.
"""

from __future__ import annotations

from pathlib import Path

from tests.programs.processes import write_package

_TORCH = """
    import sys
    loader_while_running = type(globals().get("__loader__")).__name__
    __version__ = "2.0"
    class version:
        cuda = "12.1"
    class _C:
        @staticmethod
        def _cuda_setMemoryFraction(fraction, device):
            total = torch.cuda.get_device_properties(device).total_memory
            torch.cuda.fractions[device] = int(fraction * total) / float(total)
    _C = _C()  # Python 2 would bind what is set on the class itself
    import torch.cuda
"""
_CUDA = """
    import torch
    fractions, _queue, started = {}, [], []
    def is_initialized():
        return bool(started)
    def _lazy_call(call):
        call() if started else _queue.append(call)
    def _lazy_init():
        if not started:
            started.append(True)
            for call in _queue:
                call()
    def get_device_properties(index):
        class properties:
            total_memory = 8 * 1024 ** 3
        return properties
    def device_count():
        return 1
    def set_per_process_memory_fraction(fraction, device):
        torch._C._cuda_setMemoryFraction(fraction, device)
"""


def write_torch(folder: Path) -> Path:
    """A torch that starts CUDA in ``_lazy_init`` and notes its fractions; return ``folder``."""
    write_package(folder, {"torch/__init__.py": _TORCH, "torch/cuda.py": _CUDA})
    return folder
