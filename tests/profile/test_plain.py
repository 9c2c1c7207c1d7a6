"""A profile as plain data, and the examples of keys."""

from __future__ import annotations

import json
from pathlib import Path

import yaml

from gpuconf.profile import Profile, load_profile
from gpuconf.profile.schema import PROFILE, Section
from gpuconf.profile.shown import to_plain
from tests.profile.test_rules import GOOD

RICH = """
gpus: {pick: most-free, count: 2}
memory:
  {allow_growth: on, memory_limit: 70%, keep_free: 1GiB, reserve: 2GiB, on_shortage: {wait: 90s}}
virtual_devices: [1GiB, 12.5%]
per_gpu:
  0: {memory: {keep_free: null}}
  GPU-8f6c: {virtual_devices: null, memory: {on_shortage: cpu}}
tensorflow: {cudnn_workspace_limit: 256MiB, session: none, allocator: bfc}
jax: {preallocate: off}
torch: {expandable_segments: on, garbage_collection_threshold: 80%, max_split_size: 128MiB}
slurm: {shards_per_gpu: 8}
env: {A: on, B: "1", C: null}
"""


def nameless(profile: Profile) -> Profile:
    return profile._replace(name="", source=None)


def test_plain_data_loads_as_the_same_profile(tmp_path: Path) -> None:
    """As overrides of nothing, as YAML, and it is JSON too."""
    (tmp_path / "empty.yaml").write_text("{}")
    for text in (RICH, *GOOD):
        (tmp_path / "one.yaml").write_text(text, encoding="utf-8")
        profile = load_profile(tmp_path / "one.yaml", environ={})
        plain = to_plain(profile)
        json.dumps(plain)
        again = load_profile(tmp_path / "empty.yaml", overrides=plain, environ={})
        assert nameless(again) == nameless(profile), text
        (tmp_path / "two.yaml").write_text(yaml.safe_dump(plain, sort_keys=False))
        assert nameless(load_profile(tmp_path / "two.yaml", environ={})) == nameless(profile), text


def test_no_section_is_left_out(tmp_path: Path) -> None:
    """The profile of the test above sets something in each, and each is in the plain data."""
    (tmp_path / "one.yaml").write_text(RICH, encoding="utf-8")
    plain = to_plain(load_profile(tmp_path / "one.yaml", environ={}))
    known = {key.name for key in PROFILE.keys} - {"extends", "description"}
    assert set(plain) == known


SECTIONS = [PROFILE, *(key.rule for key in PROFILE.keys if isinstance(key.rule, Section))]


def test_every_example_is_a_good_profile(tmp_path: Path) -> None:
    """What the documentation shows can be pasted."""
    keys = [(section, key) for section in SECTIONS for key in section.keys if key.example]
    assert len(keys) > 20
    for section, key in keys:
        line = f"{key.name}: {key.example}"
        file = tmp_path / "example.yaml"
        file.write_text(line if section is PROFILE else f"{section.name}: {{{line}}}")
        assert key.name == "extends" or load_profile(file, environ={}), line
