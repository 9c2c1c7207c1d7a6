"""Every good way to write each value, and what it comes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuconf.basics.units import GIB, Amount
from gpuconf.profile import load_profile
from gpuconf.profile.shown import to_plain

ROWS = yaml.safe_load(Path(__file__).with_name("good_profiles.yaml").read_text(encoding="utf-8"))
GOOD = [text for row in ROWS for text in row["written"]]
DEFAULTS: dict[str, Any] = {
    "gpus": "all",
    "memory": {"on_shortage": "fail"},
    "tensorflow": {"session": "auto"},
}


@pytest.mark.parametrize("row", ROWS, ids=[str(row["means"]) for row in ROWS])
def test_good_values(row: dict[str, Any], tmp_path: Path) -> None:
    """Each spelling is read as a person means it, and sets nothing else."""
    sections = {name: row["means"].get(name, {}) for name in ("memory", "tensorflow")}
    merged = {name: {**DEFAULTS[name], **section} for name, section in sections.items()}
    expected = json.dumps({**DEFAULTS, **row["means"], **merged}, sort_keys=True)
    file = tmp_path / "good.yaml"
    for text in row["written"]:
        file.write_text(text, encoding="utf-8")
        plain = to_plain(load_profile(file, environ={}))
        assert json.dumps(plain, sort_keys=True) == expected, text


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
