"""Every good way to write each value, and what it comes to."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from gpuconf.profile import Profile, load_profile
from gpuconf.profile.model import GpuSelection, OnShortage
from gpuconf.units import GIB, MIB, Amount

GOOD: list[tuple[str, str, Any]] = [
    # booleans, as YAML 1.1 and 1.2 write them
    *[
        (f"memory: {{allow_growth: {word}}}", "memory.allow_growth", value)
        for words, value in ((("true", "True", "on", "yes", "ON"), True), (("off", "no"), False))
        for word in words
    ],
    ("jax: {preallocate: off}", "jax.preallocate", False),
    ("torch: {expandable_segments: yes}", "torch.expandable_segments", True),
    # fractions
    *[
        (f"memory: {{per_process_gpu_memory_fraction: {text}}}", FRACTION, value)
        for FRACTION in ["memory.per_process_gpu_memory_fraction"]
        for text, value in [
            ("0.7", 0.7),
            (".7", 0.7),
            ("1", 1.0),
            ("1.", 1.0),
            ("7e-1", 0.7),
            ("+0.5", 0.5),
            ("70%", 0.7),
            ('"70%"', 0.7),
            ("100%", 1.0),
            ("!!float 0.5", 0.5),
        ]
    ],
    # sizes and shares
    ("memory: {memory_limit: 6GiB}", "memory.memory_limit", Amount(6 * GIB)),
    ('memory: {memory_limit: "6 GiB"}', "memory.memory_limit", Amount(6 * GIB)),
    ("memory: {memory_limit: 512 MB}", "memory.memory_limit", Amount(512_000_000)),
    ("memory: {memory_limit: 70%}", "memory.memory_limit", Amount(share=0.7)),
    ("memory: {keep_free: 0MiB}", "memory.keep_free", Amount(0)),
    ("memory: {keep_free: 10%}", "memory.keep_free", Amount(share=0.1)),
    ("memory: {context: 700MiB}", "memory.context", Amount(700 * MIB)),
    ("memory: {context: 0MiB}", "memory.context", Amount(0)),
    ("memory: {context: 5%}", "memory.context", Amount(share=0.05)),
    ("memory: {context: null}", "memory.context", None),
    ("memory: {lease: false}", "memory.lease", False),
    ("memory: {lease: on}", "memory.lease", True),
    ("memory: {lease: null}", "memory.lease", None),
    ("memory: {at_least: 1.5GiB}", "memory.at_least", Amount(1536 * MIB)),
    ("memory:\n at_least: |\n  2GiB\n", "memory.at_least", Amount(2 * GIB)),
    # shortage
    ("memory: {on_shortage: fail}", "memory.on_shortage", OnShortage("fail")),
    ("memory: {on_shortage: cpu}", "memory.on_shortage", OnShortage("cpu")),
    ("memory: {on_shortage: {wait: 10min}}", "memory.on_shortage", OnShortage("wait", 600)),
    ("memory:\n on_shortage:\n  wait: 90s", "memory.on_shortage", OnShortage("wait", 90)),
    ("memory: {on_shortage: wait 10min}", "memory.on_shortage", OnShortage("wait", 600)),
    ('memory: {on_shortage: "wait: 2 h"}', "memory.on_shortage", OnShortage("wait", 7200)),
    ("memory: {on_shortage: {wait: forever}}", "memory.on_shortage", OnShortage("wait", math.inf)),
    ('memory: {on_shortage: "wait: forever"}', "memory.on_shortage", OnShortage("wait", math.inf)),
    ("memory: {on_shortage: wait forever}", "memory.on_shortage", OnShortage("wait", math.inf)),
    # GPUs
    ("gpus: all", "gpus", GpuSelection("all")),
    ("gpus: none", "gpus", GpuSelection("none")),
    ("gpus: [0, 2]", "gpus", GpuSelection("list", (0, 2))),
    ("gpus:\n- 1\n", "gpus", GpuSelection("list", (1,))),
    ("gpus: [GPU-8f6c, 0]", "gpus", GpuSelection("list", ("GPU-8f6c", 0))),
    ('gpus: ["MIG-GPU-8f6c-12/3/0"]', "gpus", GpuSelection("list", ("MIG-GPU-8f6c-12/3/0",))),
    ("gpus: {pick: most-free, count: 2}", "gpus", GpuSelection("pick", count=2)),
    ("gpus: {count: 2}", "gpus", GpuSelection("pick", count=2)),
    ("gpus: {pick: most-free}", "gpus", GpuSelection("pick", count=1)),
    # devices
    ("virtual_devices: [50%, 1GiB]", "virtual_devices", (Amount(share=0.5), Amount(GIB))),
    ("virtual_devices: []", "virtual_devices", ()),
    # frameworks
    ("tensorflow: {allocator: cuda_malloc_async}", "tensorflow.allocator", "cuda_malloc_async"),
    ("tensorflow: {session: graph}", "tensorflow.session", "graph"),
    ("tensorflow: {session: none}", "tensorflow.session", "none"),
    (
        "tensorflow: {cudnn_workspace_limit: 256MiB}",
        "tensorflow.cudnn_workspace_limit",
        256 * MIB,
    ),
    # variables are the text that was written, whatever YAML would make of it
    (
        "env: {A: on, B: 1, C: '1', D: 010, E: 2020-01-01, F: 1.50, G: no, H: ''}",
        "env",
        (
            *(("A", "on"), ("B", "1"), ("C", "1"), ("D", "010"), ("E", "2020-01-01")),
            *(("F", "1.50"), ("G", "no"), ("H", "")),
        ),
    ),
    (
        "env: {MY_PATH: a, PATHS: b, GOLD_X: c, PYTORCH_X: d, HOME_2: e}",
        "env",
        (("MY_PATH", "a"), ("PATHS", "b"), ("GOLD_X", "c"), ("PYTORCH_X", "d"), ("HOME_2", "e")),
    ),
    ("env: {A: 'null', B: \"a b\", on: x}", "env", (("A", "null"), ("B", "a b"), ("on", "x"))),
    # text
    ("description: 2024", "description", "2024"),
    ("description: 'Räume für zwei 🎉'", "description", "Räume für zwei 🎉"),
    # null and nothing: no rule
    ("memory: {memory_limit: null}", "memory.memory_limit", None),
    ("memory: {on_shortage: ~}", "memory.on_shortage", OnShortage("fail")),
    ("gpus: null", "gpus", GpuSelection("all")),
    ("extends: null", "description", None),
    ("memory:\n# all commented out\n", "memory.allow_growth", None),
    ("env:\nper_gpu:\njax:\n", "env", ()),
    ("env: {A: null}", "env", ()),
    ("{}", "memory.memory_limit", None),
]


def value_at(profile: Profile, key: str) -> Any:
    """The value of a dotted key of the model."""
    value: Any = profile
    for name in key.split("."):
        value = getattr(value, name)
    return value


@pytest.mark.parametrize(("text", "key", "expected"), GOOD, ids=[text for text, _, _ in GOOD])
def test_good_values(text: str, key: str, expected: Any, tmp_path: Path) -> None:
    """Each spelling is read as a person means it."""
    file = tmp_path / "good.yaml"
    file.write_text(text, encoding="utf-8")
    value = value_at(load_profile(file, environ={}), key)
    assert value == expected
    assert type(value) is type(expected)


def test_yaml_11_guesses_nothing(tmp_path: Path) -> None:
    """A tag of the core types is read; what a plain word means is decided by its key."""
    file = tmp_path / "good.yaml"
    file.write_text("env: {A: on, B: !!str 012, C: 1_000, D: 2020-01-01, E: !!int 7}")
    wanted = {"A": "on", "B": "012", "C": "1_000", "D": "2020-01-01", "E": "7"}
    assert dict(load_profile(file, environ={}).env) == wanted


def test_per_gpu_is_laid_over_the_profiles_own_rules(tmp_path: Path) -> None:
    """An entry holds complete rules: its own, the profile's for the rest, none where null."""
    file = tmp_path / "good.yaml"
    file.write_text(
        "memory: {allow_growth: true, keep_free: 1GiB, memory_limit: 6GiB}\n"
        "virtual_devices: [50%]\n"
        "per_gpu:\n"
        "  0: {memory: {memory_limit: 3GiB}}\n"
        "  GPU-8f6c: {memory: {keep_free: null}, virtual_devices: null}\n"
        "  2: {memory: null}\n"
        "  3: null\n"
        "  4:\n"
    )
    rules = dict(load_profile(file, environ={}).per_gpu)
    assert list(rules) == [0, "GPU-8f6c", 2, 4]
    assert rules[0].memory.memory_limit == Amount(3 * GIB)
    assert rules[0].memory.keep_free == Amount(GIB)
    assert rules[0].virtual_devices == (Amount(share=0.5),)
    assert rules["GPU-8f6c"].memory.keep_free is None
    assert rules["GPU-8f6c"].memory.memory_limit == Amount(6 * GIB)
    assert rules["GPU-8f6c"].virtual_devices == ()
    assert rules[2].memory.allow_growth is None
    assert rules[4].memory.memory_limit == Amount(6 * GIB)


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    """Editors on Windows write both."""
    file = tmp_path / "good.yaml"
    file.write_bytes(b"\xef\xbb\xbfgpus: none\r\nmemory:\r\n  keep_free: 1GiB\r\n")
    profile = load_profile(file, environ={})
    assert (profile.gpus.kind, profile.memory.keep_free) == ("none", Amount(GIB))
