"""A simulated GPU that runs the real GPU memory code of TensorFlow, PyTorch and JAX.

Real: the frameworks' GPU devices, allocators, options and error messages, and the real
nvidia-ml-py. Simulated: the CUDA driver and runtime, NVML and cuDNN, which are small stand-ins
(``native/``) on top of a file shared by all processes. Device memory is host memory. With the
kernel bridge, TensorFlow's CPU kernels compute on it; PyTorch and JAX can only use its memory. A
CUDA kernel never runs, and a launch never goes unnoticed: see ``native/kernels.c``.
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
