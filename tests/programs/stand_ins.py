"""Packages with a framework's name, which have as much of it as gpuconf touches.

Old Pythons can run them too.  TensorFlow itself is in the slow tests.
"""

from __future__ import annotations

from pathlib import Path

from tests.programs.processes import write_package

# Frameworks of which only the import matters.
IMPORTED = {"cupy.py": "value = 1\n", "numba/__init__.py": "", "numba/cuda.py": ""}
# A torch with submodules, which starts CUDA in ``_lazy_init`` and notes each device's fraction.
TORCH = {
    "torch/__init__.py": """
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
        from torch import nn
        """,
    "torch/nn.py": "value = 1\n",
    "torch/cuda.py": """
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
                total_memory = TOTAL_MIB * 1024 ** 2
            return properties
        def device_count():
            return 1
        def memory_reserved(index):
            return 0
        def set_per_process_memory_fraction(fraction, device):
            torch._C._cuda_setMemoryFraction(fraction, device)
        """,
}
# A JAX that has initialized its GPUs.
JAX_WITH_DEVICES = {
    "jax/__init__.py": "__version__ = '0.7'\nfrom jax._src import xla_bridge\n",
    "jax/_src/__init__.py": "",
    "jax/_src/xla_bridge.py": """
        _backends = {'cuda': object()}
        def backends():
            return _backends
        """,
}


def write_torch(folder: Path, *, total_mib: int = 8192) -> Path:
    """Write that torch, with a GPU of so many MiB; return ``folder``."""
    files = {name: text.replace("TOTAL_MIB", str(total_mib)) for name, text in TORCH.items()}
    write_package(folder, files)
    return folder
