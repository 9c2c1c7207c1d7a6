"""The environment variables that gpuconf sets itself, each with its profile key.

``env`` rejects them, and the backends look up here which key a variable belongs to.
"""

from __future__ import annotations

OWNED_VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "gpus",
    "CUDA_DEVICE_ORDER": "gpus",
    "TF_FORCE_GPU_ALLOW_GROWTH": "memory.allow_growth",
    "XLA_CLIENT_MEM_FRACTION": "memory.per_process_gpu_memory_fraction",
    "XLA_PYTHON_CLIENT_MEM_FRACTION": "memory.per_process_gpu_memory_fraction",
    "TF_GPU_ALLOCATOR": "tensorflow.allocator",
    "TF_CUDNN_WORKSPACE_LIMIT_IN_MB": "tensorflow.cudnn_workspace_limit",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "jax.preallocate",
    "XLA_PYTHON_CLIENT_ALLOCATOR": "jax.allocator",
    "CUPY_GPU_MEMORY_LIMIT": "memory.memory_limit",
    "PYTORCH_CUDA_ALLOC_CONF": "torch",
    "PYTORCH_ALLOC_CONF": "torch",
}
