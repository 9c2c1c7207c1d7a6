"""The keys of a profile, declared once.

The reader (``reading``), the JSON Schema for editors and the table of keys in the documentation
(docs/profile_schema.py, docs/key_tables.py) are all derived from ``PROFILE``.
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
    """One key: its name, its allowed values, and its purpose.

    ``default`` describes what applies if the key is not written.
    """

    name: str
    rule: ValueRule | Section | PerGpu
    description: str
    default: str = ""
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
        Key(
            "allow_growth",
            flag(),
            "Take memory as it is needed, up to the limit, instead of the whole limit at once.",
            "the framework's own: TensorFlow takes the whole limit at once",
            "true",
        ),
        Key(
            "per_process_gpu_memory_fraction",
            fraction(),
            "At most this part of the card's total memory. Above 1 is refused: TensorFlow would "
            "turn to unified memory, which spills to the host.",
            "no such rule",
            "0.7",
        ),
        Key(
            "memory_limit",
            amount(of="of the card's total", example="6GiB"),
            "At most this much; with a fraction too, the smaller of the two rules.",
            "no such rule",
            "6GiB",
        ),
        Key(
            "keep_free",
            amount(of="of the card's total", zero=True, example="1GiB"),
            "Never taken from what is free at the start: room for the display.",
            "no such rule",
            "512MiB",
        ),
        Key(
            "context",
            amount(of="of the card's total", zero=True, example="512MiB"),
            "What this process takes outside the framework's allocator, which no limit covers: "
            "its CUDA context, loaded kernels, cuDNN and cuBLAS handles. It comes off what is "
            "free, and is part of the lease.",
            "384 to 896 MiB, by the card's generation: docs/sharing.md has the table",
            "700MiB",
        ),
        Key(
            "lease",
            flag(),
            "Whether to reserve memory on the GPU until this process exits, and to leave others "
            "what they have reserved.",
            "true where there is a limit, unless the card is in exclusive mode",
            "false",
        ),
        Key(
            "reserve",
            amount(of="of the card's total", example="1GiB"),
            "How much of the limit is reserved, in addition to the context. The rest is for "
            "whoever allocates it first.",
            "the whole limit",
            "1GiB",
        ),
        Key(
            "hold",
            flag(),
            "Whether the framework takes what is reserved when it initializes its GPUs and keeps "
            "it in its own pool, so that no other process can use it.",
            "true where allow_growth is on and reserve is below the limit",
            "false",
        ),
        Key(
            "at_least",
            amount(of="of the card's total", example="2GiB"),
            "Less than this left to take, after keep_free and context, is a shortage; see "
            "on_shortage.",
            "no such rule",
            "2GiB",
        ),
        Key(
            "on_shortage",
            on_shortage(),
            "What to do on a shortage: fail with an error, continue without a GPU (cpu), or wait "
            "in line until there is room: forever, or for the given time and then fail.",
            "fail",
            "{wait: 10min}",
        ),
        Key(
            "share",
            choice("ray", "slurm", "none"),
            "The scheduler whose share of the card is the limit: what Ray (num_gpus=0.4) or "
            "Slurm (gres/shard) has assigned, of the memory that no program outside that scheduler "
            "holds.",
            "slurm where Slurm has assigned shards (SLURM_SHARDS_ON_NODE), else none; ray where "
            "gpuconf.ray.setup runs",
            "slurm",
        ),
    ),
    MemoryRules,
)
_VIRTUAL_DEVICES = Key(
    "virtual_devices",
    virtual_devices(),
    "Cut each visible GPU into TensorFlow 2 logical devices of these sizes; a percentage is of "
    "the GPU's limit.",
    "none",
    "[2GiB, 2GiB]",
)
GPU = Section(
    "gpu",
    (Key("memory", MEMORY, "Memory rules of this GPU alone."), _VIRTUAL_DEVICES),
    GpuRules,
)
TENSORFLOW = Section(
    "tensorflow",
    (
        Key(
            "allocator",
            choice("bfc", "cuda_malloc_async"),
            "TensorFlow's allocator. cuda_malloc_async suffers less from fragmentation, but its "
            "limit is not a cap: it goes with no limit and no virtual devices.",
            "TensorFlow's own, bfc",
            "bfc",
        ),
        Key(
            "cudnn_workspace_limit",
            size(at_least=MIB, example="256MiB"),
            "The most scratch memory one convolution may take.",
            "TensorFlow's own, 4 GiB",
            "256MiB",
        ),
        Key(
            "session",
            choice("auto", "graph", "none"),
            "Sessions of TensorFlow 1: auto holds those that the script or Keras makes to the "
            "plan; graph also switches to graph mode, makes one session and installs it into "
            "Keras; none leaves every session its own options.",
            "auto",
            "graph",
        ),
    ),
    TensorFlowRules,
)
JAX = Section(
    "jax",
    (
        Key(
            "preallocate",
            flag(example="false"),
            "Whether JAX takes its whole share at once.",
            "the opposite of memory.allow_growth; without that, JAX's own, true",
            "false",
        ),
        Key(
            "allocator",
            choice("default", "platform", "cuda_async", "vmm"),
            "JAX's allocator. Only the default one holds a limit: platform asks the driver for "
            "each array, without a cap; cuda_async leaves its memory to the driver's own pool, "
            "where the limit is not a cap; of vmm, in the newest JAX, no cap is known.",
            "JAX's own, default",
            "default",
        ),
    ),
    JaxRules,
)
TORCH = Section(
    "torch",
    (
        Key(
            "expandable_segments",
            flag(),
            "Let PyTorch grow its segments, against fragmentation.",
            "PyTorch's own, false",
            "true",
        ),
        Key(
            "garbage_collection_threshold",
            fraction(whole=False),
            "From this part of the limit on PyTorch frees blocks that were not used for long, "
            "before it asks for more memory.",
            "PyTorch's own, off",
            "0.8",
        ),
        Key(
            "max_split_size",
            size(at_least=21 * MIB, example="128MiB"),
            "PyTorch does not split blocks that are larger, against fragmentation; in whole MiB, "
            "rounded down.",
            "PyTorch's own, no such size",
            "128MiB",
        ),
        Key(
            "report_free",
            choice("limit", "device"),
            "What `torch.cuda.mem_get_info` reports as free: limit, at most what is left of the "
            'limit, for libraries that base their memory use on it (`device_map="auto"`); device, '
            "what the driver reports. The total is always the device's.",
            "limit",
            "device",
        ),
    ),
    TorchRules,
)
SLURM = Section(
    "slurm",
    (
        Key(
            "shards_per_gpu",
            whole(at_least=1, at_most=10_000, example="8"),
            "The number of shards of each GPU in gres.conf; no variable of a job has it.",
            "$GPUCONF_SHARDS_PER_GPU, else what `scontrol show node` says",
            "8",
        ),
    ),
    SlurmRules,
)
_KEYS: tuple[Key, ...] = (
    Key(
        "description",
        text(says="a few words", example="The card also drives the display"),
        "What the profile is for; `gpuconf profiles list` shows it.",
        "none",
        "The card also drives the display",
    ),
    Key(
        "extends",
        text(
            says="the name of a profile, or a path from this file's folder",
            example="shared-desktop",
        ),
        "Begin with the rules of that profile; keys written here override its keys, mappings "
        "key by key. null removes an inherited rule.",
        "none",
        "shared-desktop",
    ),
    Key(
        "gpus",
        gpus(),
        "The GPUs the program may see: all, none, numbers or UUIDs, or the ones with most "
        "free memory. What a scheduler has set is narrowed, never widened.",
        "all",
        "[0, 2]",
    ),
    Key("memory", MEMORY, "How much of each card may be taken, and how."),
    _VIRTUAL_DEVICES,
    Key(
        "per_gpu",
        PerGpu(GPU),
        "Rules for single GPUs, by number or UUID, laid over the profile's own.",
        "none",
        "{0: {memory: {memory_limit: 3GiB}}}",
    ),
    Key("tensorflow", TENSORFLOW, "Settings of TensorFlow alone."),
    Key("jax", JAX, "Settings of JAX alone."),
    Key(
        "torch",
        TORCH,
        "Settings of PyTorch alone.",
    ),
    Key("slurm", SLURM, "What a job cannot learn from Slurm."),
    Key(
        "env",
        env(),
        "Environment variables to set before the framework is imported, each value the text "
        "as written. Refused: variables that gpuconf computes itself; and LD_…, PYTHON…, PATH "
        "and HOME, which act before a program starts or on what code it runs, and belong in "
        "the shell. A file that was found in a project may set only a list of harmless "
        "variables, such as TF_CPP_MIN_LOG_LEVEL and OMP_NUM_THREADS, until it is trusted.",
        "none",
        '{TF_CPP_MIN_LOG_LEVEL: "1"}',
    ),
)
PROFILE = Section("profile", _KEYS)
