"""The keys of a profile, declared once.

The reader below, the JSON Schema for editors (``editor_schema``) and the table of keys in
the documentation (``reference``) are all made from ``PROFILE``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gpuconf.errors import ProfileError
from gpuconf.profile.compound_rules import on_shortage, virtual_devices
from gpuconf.profile.env_rules import env
from gpuconf.profile.gpu_rules import gpu_member, gpus
from gpuconf.profile.model import GpuRules, JaxRules, MemoryRules, TensorFlowRules, TorchRules
from gpuconf.profile.nodes import Mapping, Mark, Node, Scalar, merged
from gpuconf.profile.problems import nearest, problem, quoted
from gpuconf.profile.rules import Rule, amount, choice, flag, fraction, refuse, size, text
from gpuconf.units import MIB


class Key(NamedTuple):
    """One key: its name, what may stand there, and what it is for.

    ``default`` says in words what holds where the key is not written.
    """

    name: str
    rule: Rule | Section | PerGpu
    description: str
    default: str = ""
    example: str = ""


class Section(NamedTuple):
    """A mapping with known keys; ``make`` takes their values as keyword arguments."""

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
            "Never taken from what is free at the start: room for the display, and for this "
            "process's own CUDA context and cuDNN and cuBLAS handles, which no limit covers.",
            "no such rule",
            "1GiB",
        ),
        Key(
            "at_least",
            amount(of="of the card's total", example="2GiB"),
            "Less than this left to take, after keep_free, is a shortage; see on_shortage.",
            "no such rule",
            "2GiB",
        ),
        Key(
            "on_shortage",
            on_shortage(),
            "What to do on a shortage: fail with an error, go on without GPU (cpu), or wait "
            "until there is room, at most the given time, and then fail.",
            "fail",
            "{wait: 10min}",
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
            "Sessions of TensorFlow 1: graph makes one from this profile and installs it into "
            "Keras; none never does; auto does so where eager mode is off.",
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
    ),
    TorchRules,
)
PROFILE = Section(
    "profile",
    (
        Key(
            "description",
            text(says="a few words"),
            "What the profile is for; `gpuconf profiles list` shows it.",
            "none",
            "The card also drives the display",
        ),
        Key(
            "extends",
            text(says="the name of a profile, or a path from this file's folder"),
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
        Key("torch", TORCH, "Settings of PyTorch alone."),
        Key(
            "env",
            env(),
            "Environment variables to set before the framework is imported, each value the text "
            "as written. Variables that gpuconf computes itself are refused.",
            "none",
            '{TF_CPP_MIN_LOG_LEVEL: "1"}',
        ),
    ),
)


def read(root: Mapping) -> tuple[dict[str, Any], list[ProfileError]]:
    """The values of a whole profile by key, and every problem, in the order of the file.

    ``per_gpu`` is a list of ``(GPU, its own section as a node)``, for the caller to lay over
    the profile's rules.
    """
    problems: list[ProfileError] = []
    return _read_keys(PROFILE, root, "", problems), problems


def read_gpu_rules(root: Mapping, own: Node) -> GpuRules:
    """The complete rules of one GPU: its ``own`` laid over those of the checked ``root``."""
    shared = {name: root.entries[name] for name in root.entries if name in GpuRules._fields}
    node = Mapping(shared, root.mark)
    if isinstance(own, Mapping):
        node = merged(node, own)
    rules: GpuRules = _read_section(GPU, node, "", [])
    return rules


def _read_section(section: Section, node: Node, key: str, problems: list[ProfileError]) -> Any:
    if isinstance(node, Scalar) and (node.is_null or node.is_empty):
        node = Mapping({}, node.mark)
    if not isinstance(node, Mapping):
        name = section.keys[0].name
        hint = f"write `{key.rpartition('.')[2]}: {{{name}: {section.keys[0].example}}}`"
        problems.append(refuse(node, key, "a mapping of keys to values", hint))
        return None
    values = _read_keys(section, node, key, problems)
    return section.make(**values) if section.make else values


def _read_keys(
    section: Section, node: Mapping, key: str, problems: list[ProfileError]
) -> dict[str, Any]:
    keys = {known.name: known for known in section.keys}
    values: dict[str, Any] = {}
    for name, entry in node.entries.items():
        path = f"{key}.{name}" if key else name
        if name not in keys:
            problems.append(_unknown(section, name, path, entry.key_mark))
        elif not (isinstance(entry.value, Scalar) and entry.value.is_null):
            try:
                values[name] = _read_value(keys[name].rule, entry.value, path, problems)
            except ProfileError as error:
                problems.append(error)
    return values


def _read_value(
    rule: Rule | Section | PerGpu, node: Node, key: str, problems: list[ProfileError]
) -> object:
    if isinstance(rule, Rule):
        return rule.read(node, key)
    if isinstance(rule, Section):
        return _read_section(rule, node, key, problems)
    return _read_per_gpu(rule, node, key, problems)


def _read_per_gpu(
    rule: PerGpu, node: Node, key: str, problems: list[ProfileError]
) -> list[tuple[int | str, Node]]:
    if isinstance(node, Scalar) and node.is_empty:
        return []
    if not isinstance(node, Mapping):
        hint = "write `per_gpu: {0: {memory: {memory_limit: 3GiB}}}`"
        raise refuse(node, key, "a mapping from GPU numbers or UUIDs to their rules", hint)
    rules: list[tuple[int | str, Node]] = []
    for name, entry in node.entries.items():
        path = f"{key}.{name}"
        # A key is a name, quoted or not: JSON could not write it otherwise.
        gpu = gpu_member(Scalar(name, False, entry.key_mark), path)
        _read_section(rule.section, entry.value, path, problems)
        if not (isinstance(entry.value, Scalar) and entry.value.is_null):
            rules.append((gpu, entry.value))
    return rules


def _unknown(section: Section, name: str, path: str, mark: Mark) -> ProfileError:
    """The refusal of a key, with the key that was most likely meant."""
    known = [key.name for key in section.keys]
    meant = nearest(name, known)
    where = f"under {section.name}" if path != name else "in a profile"
    message = f"unknown key {quoted(name)} {where}"
    elsewhere = {
        f"{key.name}.{inner.name}": inner.name
        for key in PROFILE.keys
        if isinstance(key.rule, Section)
        for inner in key.rule.keys
    }
    exact = [dotted for dotted, inner in elsewhere.items() if inner == name]
    if exact:
        parent, _, child = exact[0].partition(".")
        hint = f"it belongs under {parent}: `{parent}: {{{child}: …}}`"
    elif meant:
        hint = f"write `{meant}`"
    elif other := nearest(name, elsewhere.values()):
        dotted = next(d for d, inner in elsewhere.items() if inner == other)
        hint = f"write `{dotted.replace('.', ': {')}: …}}`"
    else:
        hint = f"the keys here: {', '.join(known)}"
    return problem(message, mark=mark, key=path, hint=hint)
