"""The frameworks that the probe supports, and the steps for each."""

from __future__ import annotations

from typing import NamedTuple


class ProbedFramework(NamedTuple):
    """A framework: its package, its title, the prefix of its checks, and its steps in order.

    ``install`` is the command that installs it with CUDA.
    """

    package: str
    title: str
    prefix: str
    steps: tuple[str, ...]
    install: str


_ALLOCATING = ("start", "context", "memory", "matmul")
TENSORFLOW = ProbedFramework(
    "tensorflow",
    "TensorFlow",
    "live",
    ("start", "context", "matmul", "convolution", "fit"),
    "pip install 'tensorflow[and-cuda]'",
)
TORCH = ProbedFramework(
    "torch", "PyTorch", "live.torch", _ALLOCATING, "pip install --force-reinstall torch"
)
JAX = ProbedFramework("jax", "JAX", "live.jax", _ALLOCATING, "pip install -U 'jax[cuda12]'")
FRAMEWORKS = (TENSORFLOW, TORCH, JAX)
