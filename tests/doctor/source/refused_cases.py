"""Scripts with values that PyTorch and JAX refuse, and with values that they take."""

from __future__ import annotations

from typing import Any

_SET = "import os\nos.environ[{!r}] = {!r}\n"

REFUSED: tuple[tuple[Any, ...], ...] = (
    ("refused_value", "gpu is two platforms", _SET.format("JAX_PLATFORMS", "gpu,cpu"), 2),
    ("refused_value", "cuda", _SET.format("JAX_PLATFORMS", "cuda,cpu")),
    ("refused_value", "jax's allocator", _SET.format("XLA_PYTHON_CLIENT_ALLOCATOR", "async"), 2),
    ("refused_value", "platform", _SET.format("XLA_PYTHON_CLIENT_ALLOCATOR", "platform")),
    (
        "refused_value", "both fractions",
        """
        import os
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = ".3"
        os.environ["XLA_CLIENT_MEM_FRACTION"] = ".3"
        """, 3,
    ),
    (
        "refused_value", "one fraction, twice",
        """
        import os
        os.environ["XLA_CLIENT_MEM_FRACTION"] = ".3"
        os.environ["XLA_CLIENT_MEM_FRACTION"] = ".4"
        """,
    ),
    (
        "refused_value", "torch's options",
        _SET.format("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:true"), 2,
    ),
    (
        "refused_value", "torch's option, misspelt",
        _SET.format("PYTORCH_CUDA_ALLOC_CONF", "max_split_size:64,expandable_segment:True"), 2,
    ),
    (
        "refused_value", "torch's option, misspelt, with a value that torch refuses",
        _SET.format("PYTORCH_CUDA_ALLOC_CONF", "max_split_size:8,expandable_segment:True"), 2,
    ),
    (
        "refused_value", "two values that torch refuses",
        _SET.format("PYTORCH_ALLOC_CONF", "backend:async,max_split_size_mb:8"), 2,
    ),
    (
        "refused_value", "an option of a torch to come",
        _SET.format("PYTORCH_ALLOC_CONF", "compress_idle_blocks:True"),
    ),
    (
        "refused_value", "jax's fraction in percent",
        "import os\nos.environ.setdefault('XLA_PYTHON_CLIENT_MEM_FRACTION', '80')\n", 2,
    ),
    (
        "refused_value", "options that torch takes",
        _SET.format("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:64"),
    ),
    (
        "refused_value", "a fraction in percent",
        "import torch\ntorch.cuda.set_per_process_memory_fraction(30)\n", 2,
    ),
    (
        "refused_value", "a fraction",
        "import torch\ntorch.cuda.set_per_process_memory_fraction(0.3, device=1)\n",
    ),
)  # fmt: skip
