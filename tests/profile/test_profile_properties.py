"""Whatever is in a file or an override: a Profile or a ProfileError, never anything else."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from gpuconf.errors import ProfileError
from gpuconf.profile import Profile, load_profile
from gpuconf.profile.nodes import Mapping, Node, Scalar, merged
from gpuconf.profile.overrides import to_nodes
from gpuconf.profile.schema import PROFILE, PerGpu, Section
from gpuconf.profile.shown import to_plain
from tests.profile.bad_profiles import BAD_PROFILES

SEEDS = [bad.content.decode() for bad in BAD_PROFILES if bad.name.startswith(("code", "yaml"))]
KEYS = [key.name for key in PROFILE.keys]
KEYS += [k.name for key in PROFILE.keys if isinstance(key.rule, Section) for k in key.rule.keys]
WORDS = [
    *("all", "none", "true", "on", "null", "~", "", "0", "-1", "0.7", "70%", "4GiB", "4096"),
    *("fail", "cpu", "wait 10min", "graph", "bfc", "cuda_malloc_async", ".nan", "1e999"),
    *("GPU-8f6c", "most-free", "shared-desktop", "bad.yaml", "CUDA_VISIBLE_DEVICES"),
]
SCALARS = st.one_of(
    st.sampled_from(WORDS), st.text(max_size=20), st.none(), st.booleans(), st.integers(),
    st.floats(), st.binary(max_size=5), st.dates(),
)  # fmt: skip
NAMES = st.one_of(st.sampled_from([*KEYS, "0", "wait", "pick", "count", "GPU-1"]), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)


def attempt(name: str | Path, **given: Any) -> Profile | ProfileError:
    """The profile, or its refusal; whatever else is raised fails the test."""
    try:
        return load_profile(name, environ={}, **given)
    except ProfileError as error:
        return error


def outcome(data: bytes) -> Profile | ProfileError:
    """The profile in ``data``, or its refusal, which must have a place and a hint."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bad.yaml")
        file.write_bytes(data)
        result = attempt(file, directory=folder)
    if isinstance(result, ProfileError):
        assert result.file is not None
        assert min(result.line or 0, result.column or 0) >= 1
        assert result.hint
        str(result).encode("utf-8")
    return result


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    """No bytes crash the loader."""
    outcome(data)


@given(st.text(alphabet=st.sampled_from("amk:-[]{}&*!|>'\"%@`#?,. \t\n\r0~<=\\\x00\x85\ufeff😀")))
def test_any_text_of_yamls_own_characters(text: str) -> None:
    """Nor does anything that looks like YAML."""
    outcome(text.encode())


@given(st.sampled_from(SEEDS), st.integers(0, 60), st.text(max_size=3), st.integers(0, 5))
def test_slightly_broken_files(seed: str, at: int, put: str, cut: int) -> None:
    """Nor a bad file with something cut out or put in."""
    outcome((seed[:at] + put + seed[at + cut :]).encode("utf-8", "surrogatepass"))


@pytest.mark.slow  # hundreds of documents each
@given(st.dictionaries(NAMES, VALUES, max_size=5))
@example({"memory": {"keep_free": "1GiB"}, "per_gpu": {"0": None}})
def test_any_structure(values: dict[str, Any]) -> None:
    """Any YAML document; a good one goes through plain data and back unchanged."""
    result = outcome(yaml.safe_dump(values, allow_unicode=True).encode("utf-8", "surrogatepass"))
    if isinstance(result, Profile):
        again = load_profile("cpu-only", overrides={"gpus": None, **to_plain(result)}, environ={})
        assert again._replace(name="bad", source=result.source, description=None) == (
            result._replace(description=None)
        )


@pytest.mark.slow  # hundreds of documents each
@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_override(values: dict[str, Any]) -> None:
    """The same for overrides, which may hold anything that Python can."""
    result = attempt("cpu-only", overrides=values)
    if isinstance(result, ProfileError):
        assert result.hint
        assert result.message.startswith("override ")
        str(result).encode("utf-8")


MAPPINGS = st.recursive(
    st.sampled_from(["1", "x", None]),
    lambda inner: st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
).filter(lambda value: isinstance(value, dict))


def leaves(node: Node | None, key: str = "") -> dict[str, str]:
    """The text of every single value by its dotted key."""
    if isinstance(node, Mapping):
        inner = [leaves(entry.value, f"{key}.{name}") for name, entry in node.entries.items()]
        return {path: text for part in inner for path, text in part.items()}
    return {key: node.text} if isinstance(node, Scalar) else {}


@given(MAPPINGS, MAPPINGS)
def test_the_upper_profile_rules(lower: Any, upper: Any) -> None:
    """All that it says holds; of the lower one only what the upper does not speak of."""
    below, above = to_nodes(lower), to_nodes(upper)
    both = leaves(merged(below, above))
    said, rest = leaves(above), leaves(below)
    assert said.items() <= both.items()
    assert both.items() - said.items() <= rest.items()


@given(MAPPINGS)
def test_merging_with_nothing_changes_nothing(values: Any) -> None:
    """An empty profile on either side."""
    node, nothing = to_nodes(values), to_nodes({})
    assert merged(node, nothing) == merged(nothing, node) == node


def test_the_deepest_good_file_is_far_from_the_limits() -> None:
    """Limits against bombs never stand in the way of a profile: 6 levels, some 100 values."""

    def depth(section: Section | PerGpu | object) -> int:
        if isinstance(section, PerGpu):
            return 2 + depth(section.section)
        if isinstance(section, Section):
            return 1 + max(depth(key.rule) for key in section.keys)
        return 1

    assert depth(PROFILE) <= 6
    text = "per_gpu:\n" + "".join(
        f"  {i}: {{memory: {{memory_limit: 1GiB, keep_free: 1GiB}}, virtual_devices: [50%, 50%]}}\n"
        for i in range(256)
    )
    assert isinstance(outcome(text.encode()), Profile)
