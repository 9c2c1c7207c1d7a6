"""The keys of a profile, declared once.

The reader (``reading``), the JSON Schema for editors and the table of keys in the documentation
(docs/profile_schema.py, docs/key_tables.py) are all derived from ``PROFILE``. What the latter two
say about each key is in docs/profile_keys.yaml.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.basics.units import MIB
from gpuconf.profile.compound_rules import env, gpus, on_shortage, virtual_devices
from gpuconf.profile.model import (
    GpuRules,
    JaxRules,
    MemoryRules,
    SlurmRules,
    TensorFlowRules,
    TorchRules,
)
from gpuconf.profile.rules import ValueRule, amount, choice, flag, fraction, size, text, whole


class Key(NamedTuple):
    """One key: its name, its allowed values, and an example value."""

    name: str
    rule: ValueRule | Section | PerGpu
    example: str = ""


class Section(NamedTuple):
    """A mapping with known keys; ``make`` receives their values as keyword arguments."""

    name: str
    keys: tuple[Key, ...]
    make: type[Any] | None = None


class PerGpu(NamedTuple):
    """A mapping from GPUs (index or UUID) to sections."""

    section: Section


MEMORY = Section(
    "memory",
    (
        Key("allow_growth", flag(), "true"),
        Key("per_process_gpu_memory_fraction", fraction(), "0.7"),
        Key("memory_limit", amount(of="of the GPU's total", example="6GiB"), "6GiB"),
        Key("keep_free", amount(of="of the GPU's total", zero=True, example="1GiB"), "512MiB"),
        Key("context", amount(of="of the GPU's total", zero=True, example="512MiB"), "700MiB"),
        Key("lease", flag(), "false"),
        Key("reserve", amount(of="of the GPU's total", example="1GiB"), "1GiB"),
        Key("hold", flag(), "false"),
        Key("at_least", amount(of="of the GPU's total", example="2GiB"), "2GiB"),
        Key("on_shortage", on_shortage(), "{wait: 10min}"),
        Key("share", choice("ray", "slurm", "none"), "slurm"),
    ),
    MemoryRules,
)
_VIRTUAL_DEVICES = Key("virtual_devices", virtual_devices(), "[2GiB, 2GiB]")
GPU = Section(
    "gpu",
    (Key("memory", MEMORY), _VIRTUAL_DEVICES),
    GpuRules,
)
TENSORFLOW = Section(
    "tensorflow",
    (
        Key("allocator", choice("bfc", "cuda_malloc_async"), "bfc"),
        Key("cudnn_workspace_limit", size(at_least=MIB, example="256MiB"), "256MiB"),
        Key("session", choice("auto", "graph", "none"), "graph"),
    ),
    TensorFlowRules,
)
JAX = Section(
    "jax",
    (
        Key("preallocate", flag(example="false"), "false"),
        Key("allocator", choice("default", "platform", "cuda_async", "vmm"), "default"),
    ),
    JaxRules,
)
TORCH = Section(
    "torch",
    (
        Key("expandable_segments", flag(), "true"),
        Key("garbage_collection_threshold", fraction(whole=False), "0.8"),
        Key("max_split_size", size(at_least=21 * MIB, example="128MiB"), "128MiB"),
        Key("report_free", choice("limit", "device"), "device"),
    ),
    TorchRules,
)
SLURM = Section(
    "slurm",
    (Key("shards_per_gpu", whole(at_least=1, at_most=10_000, example="8"), "8"),),
    SlurmRules,
)
_KEYS: tuple[Key, ...] = (
    Key(
        "description",
        text(says="a few words", example="The GPU also drives the display"),
        "The GPU also drives the display",
    ),
    Key(
        "extends",
        text(
            says="a profile's name, or a path relative to this file's folder",
            example="shared-desktop",
        ),
        "shared-desktop",
    ),
    Key("gpus", gpus(), "[0, 2]"),
    Key("memory", MEMORY),
    _VIRTUAL_DEVICES,
    Key("per_gpu", PerGpu(GPU), "{0: {memory: {memory_limit: 3GiB}}}"),
    Key("tensorflow", TENSORFLOW),
    Key("jax", JAX),
    Key("torch", TORCH),
    Key("slurm", SLURM),
    Key("env", env(), '{TF_CPP_MIN_LOG_LEVEL: "1"}'),
)
PROFILE = Section("profile", _KEYS)
