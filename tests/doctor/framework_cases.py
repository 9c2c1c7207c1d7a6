"""The checks of PyTorch and JAX: machines with a fault, and machines without one, as facts."""

from __future__ import annotations

from typing import Any

from gpuconf.doctor.facts import CudaLibrary, Facts, JaxBuild, KerasChoice, TorchBuild
from tests.doctor.doctor_machines import INVENTORY, SOUND, Case, environ, packages

_TORCH = ("torch", "2.9.1+cu128")
_CUDA = TorchBuild("12.8")
# What the wheels of jaxlib say of themselves.
_JAX_0_4_38 = JaxBuild(
    ("default", "platform", "bfc", "cuda_async"),
    ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION"),
)
OLD_JAX = JaxBuild(("default",), ("XLA_PYTHON_CLIENT_MEM_FRACTION",))
_CUPTI = CudaLibrary("cupti", "libcupti.so.12", "/nv/libcupti.so.12", "pip")


def torch(*, unknown: tuple[str, ...] = (), **variables: str) -> Facts:
    """The sound machine with torch 2.9.1, and variables."""
    build = _CUDA._replace(unknown_options=unknown)
    return packages(_TORCH, torch=build)._replace(environ=variables)


def jax(build: JaxBuild | None = None, **variables: str) -> Facts:
    """The sound machine with another jaxlib, and variables."""
    return packages(jax=build)._replace(environ=variables)


def without_jax_plugin(*found: Any, **changes: Any) -> Facts:
    """The sound machine, whose JAX is the one for the CPU."""
    return packages(*found, without=("jax-cuda12-plugin", "jax-cuda12-pjrt"), **changes)


TROUBLES = (
    Case("packages.jax", "fail", "needs jax-cuda12-pjrt 0.10.2, which is not installed",
         packages(without=("jax-cuda12-pjrt",))),
    Case("packages.jax", "fail", "pip install 'jax-cuda12-pjrt==0.10.2'",
         packages(("jax-cuda12-pjrt", "0.9.0"))),
    Case("packages.jax", "warn", "it uses the CPU",
         packages(without=("jax-cuda12-plugin", "tensorflow"), tensorflow=None)),
    Case("packages.jax", "warn", "pip install 'jax[cuda12]==0.10.2'",
         without_jax_plugin(keras=KerasChoice("jax", "KERAS_BACKEND"))),
    Case("packages.jax_libraries", "fail", "JAX would use the CPU: libcupti.so.12",
         packages(jax_libraries=(_CUPTI._replace(path=None),))),
    Case("packages.keras_backend", "warn", "unset KERAS_TORCH_DEVICE",
         packages(_TORCH, torch=_CUDA, keras=KerasChoice("torch", "KERAS_BACKEND"))._replace(
             environ={"KERAS_TORCH_DEVICE": "cpu"})),
    Case("driver.cuda", "fail", "jax-cuda13-plugin is built for CUDA 13",
         packages(("jax-cuda13-plugin", "0.10.2"))._replace(
             inventory=INVENTORY._replace(cuda_version=(12, 8)))),
    Case("environment.jax_fraction", "fail", "JAX uses the CPU, and only its log",
         environ(XLA_CLIENT_MEM_FRACTION=".5", XLA_PYTHON_CLIENT_MEM_FRACTION=".5")),
    Case("environment.jax_fraction", "warn",
         "unset XLA_CLIENT_MEM_FRACTION; export XLA_PYTHON_CLIENT_MEM_FRACTION=.5",
         jax(OLD_JAX, XLA_CLIENT_MEM_FRACTION=".5")),
    Case("environment.jax_fraction", "warn", "export XLA_PYTHON_CLIENT_MEM_FRACTION=0.90",
         jax(OLD_JAX, XLA_CLIENT_MEM_FRACTION="90")),
    Case("environment.allocator", "fail", "it takes default, platform, bfc, cuda_async",
         jax(_JAX_0_4_38, XLA_PYTHON_CLIENT_ALLOCATOR="vmm")),
    Case("environment.jax_platforms", "fail", "export JAX_PLATFORMS=cuda,cpu",
         environ(JAX_PLATFORMS="gpu,cpu")),
    Case("environment.jax_platforms", "fail", "has no plugin for CUDA",
         without_jax_plugin()._replace(environ={"JAX_PLATFORMS": "cuda"})),
    Case("environment.jax_platforms", "warn", "unset JAX_PLATFORMS", environ(JAX_PLATFORMS="cpu")),
    Case("environment.torch_allocator", "warn", "without a cap",
         torch(PYTORCH_NO_CUDA_MEMORY_CACHING="1")),
    Case("environment.torch_allocator", "warn", "unset PYTORCH_CUDA_ALLOC_CONF",
         torch(PYTORCH_ALLOC_CONF="backend:native", PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:9")),
    Case("environment.torch_allocator", "warn", "unset PYTORCH_ALLOC_CONF",
         torch(PYTORCH_ALLOC_CONF="max_split_size_mb:9", PYTORCH_CUDA_ALLOC_CONF="backend:native")),
    Case("environment.torch_allocator", "fail", "it has no option per_process_memory_fraction",
         torch(unknown=("per_process_memory_fraction",),
               PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.3")),
    Case("environment.torch_allocator", "fail", "export PYTORCH_CUDA_ALLOC_CONF='a:[1:2,3:4],b:c'",
         torch(PYTORCH_CUDA_ALLOC_CONF="a:[1:2, 3:4], expandable_segments:true, b:c")),
    Case("environment.torch_allocator", "fail", "unset PYTORCH_ALLOC_CONF",
         torch(PYTORCH_ALLOC_CONF="backend:async,max_split_size_mb:8")),
    Case("environment.torch_allocator", "fail", "export PYTORCH_ALLOC_CONF=a:b",
         torch(PYTORCH_ALLOC_CONF="a:b,max_split_size_mb:8")),
    Case("environment.torch_allocator", "fail", "backend is native or cudaMallocAsync",
         torch(PYTORCH_CUDA_ALLOC_CONF="backend:async")),
    Case("environment.torch_allocator", "fail", "between 0 and 1, and not 80%",
         torch(PYTORCH_CUDA_ALLOC_CONF="garbage_collection_threshold:80%")),
    Case("environment.torch_allocator", "fail", "at least 21, and not 8",
         torch(PYTORCH_CUDA_ALLOC_CONF="max_split_size_mb:8")),
)  # fmt: skip

SOUND_CASES = (
    Case("packages.jax", "ok", "for the CPU only", without_jax_plugin()),
    Case("packages.jax_libraries", "ok", "all 1 CUDA libraries", packages(jax_libraries=(_CUPTI,))),
    Case("packages.keras_backend", "ok", "computes with torch",
         packages(_TORCH, torch=_CUDA, keras=KerasChoice("torch", "KERAS_BACKEND"))),
    Case("driver.cuda", "ok", "jax-cuda12-plugin is built for CUDA 12", SOUND),
    Case("environment.jax_fraction", "ok", "=.5", jax(_JAX_0_4_38, XLA_CLIENT_MEM_FRACTION=".5")),
    Case("environment.allocator", "ok", "respect limits",
         jax(_JAX_0_4_38, XLA_PYTHON_CLIENT_ALLOCATOR="BFC")),
    Case("environment.jax_platforms", "ok", "=cuda,cpu", environ(JAX_PLATFORMS="cuda,cpu")),
    Case("environment.jax_platforms", "ok", "=cpu",
         without_jax_plugin()._replace(environ={"JAX_PLATFORMS": "cpu"})),
    Case("environment.torch_allocator", "skip", "no variable", torch()),
    Case("environment.torch_allocator", "skip", "no variable",
         torch(PYTORCH_NO_CUDA_MEMORY_CACHING="0")),
    Case("environment.torch_allocator", "ok", "max_split_size_mb:64",
         torch(PYTORCH_ALLOC_CONF="max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4],"
               "expandable_segments:True,garbage_collection_threshold:0.8,backend:native")),
)  # fmt: skip
