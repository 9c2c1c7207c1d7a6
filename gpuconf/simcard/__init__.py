"""A simulated card: the real GPU memory code of TensorFlow, PyTorch and JAX without a GPU.

Real: their GPU devices, allocators, options and error messages, and the real nvidia-ml-py.  Not
real: the CUDA driver and runtime, NVML and cuDNN below them, which are small stand-ins
(``native/``) over a file shared by all processes.  Device memory is host memory.  With the kernel
bridge TensorFlow's CPU kernels compute on it; PyTorch and JAX have memory alone.  A CUDA kernel
never runs, and its launch is never silent: see ``native/kernels.c``.
"""

from gpuconf.simcard.bridge import bridge_for_command, check_gpu_build
from gpuconf.simcard.card import Card, CardProcess, CardSpec, create_card
from gpuconf.simcard.libraries import build_libraries
from gpuconf.simcard.run import run_command
from gpuconf.simcard.temporary import simulated_card
from gpuconf.simcard.wheels import WheelSupport, support_for_command
from gpuconf.simcard.xla import XlaSupport, xla_for_command

__all__ = [
    "Card",
    "CardProcess",
    "CardSpec",
    "WheelSupport",
    "XlaSupport",
    "bridge_for_command",
    "build_libraries",
    "check_gpu_build",
    "create_card",
    "run_command",
    "simulated_card",
    "support_for_command",
    "xla_for_command",
]
