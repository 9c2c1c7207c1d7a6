"""Slurm's shards as a share: the variables of real jobs, as `make slurm` has recorded them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.errors import UsageError
from gpuconf.machine.cards import Gpu, Inventory
from gpuconf.machine.schedulers import assigned_share, on_slurm, with_share
from gpuconf.planner.planning import make_plan
from gpuconf.profile import load_profile
from gpuconf.profile.model import SlurmRules

_JOBS = json.loads((Path(__file__).parent / "slurm_environments.json").read_text())["jobs"]
_SHARDS, _EIGHT = _JOBS["shard, step"], {"GPUCONF_SHARDS_PER_GPU": "8"}
# By the name of the job; a whole GPU, or none, is not a share.
_PARTS = {
    "gpu": None,
    "no gres": None,
    "shard, step": 2 / 8,
    "shard, batch": 3 / 8,
    "shard, step of a batch": 2 / 8,
    "array, element 1": 2 / 8,
    "array, element 2": 2 / 8,
    "mps": 25 / 100,
}
_NODE = """NodeName=vm Arch=x86_64 CoresPerSocket=8
   Gres=gpu:1,shard:8
   NodeAddr=127.0.0.1"""


@pytest.mark.parametrize(("name", "part"), _PARTS.items())
def test_the_part_of_a_card(name: str, part: float | None) -> None:
    """Shards by the GPU's number of them; MPS by its percentage."""
    found = on_slurm.assigned(SlurmRules(), {**_JOBS[name], **_EIGHT})
    assert (found and found.part) == part


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({}, "the number of shards per GPU is unknown"),
        ({"GPUCONF_SHARDS_PER_GPU": "1"}, "a GPU has only 1 according"),
        ({**_EIGHT, "CUDA_VISIBLE_DEVICES": "0,1"}, "are on 2 GPUs"),
        # Slurm's own variable is not the user's mistake.
        *(
            ({**_EIGHT, "SLURM_SHARDS_ON_NODE": text}, "is not a number of shards")
            for text in ("0", "-1", "abc", "²", "9" * 5000)
        ),
    ],
)
def test_unknown_is_not_guessed(more: Mapping[str, str], why: str) -> None:
    """No part, and the reason in words."""
    found = on_slurm.assigned(SlurmRules(), {**_SHARDS, **more})
    assert found is not None
    assert found.part is None
    assert why in (found.why or "")


@pytest.mark.parametrize("text", ["0", "-1", "many", " 8", "8.0", "100000", "²"])
def test_a_bad_number_of_shards(text: str) -> None:
    """The user's mistake is an error with the rule."""
    with pytest.raises(UsageError, match=f"SHARDS_PER_GPU={text}; expected an integer from 1"):
        on_slurm.assigned(SlurmRules(), {**_SHARDS, "GPUCONF_SHARDS_PER_GPU": text})


@pytest.mark.parametrize(
    ("gres", "per_gpu"),
    [
        ("gpu:1,shard:8", 8),
        ("gpu:tesla:2(S:0-1),shard:tesla:16(S:0-1)", 8),
        ("gpu:2,shard:7", None),
        ("gpu:1", None),
        ("(null)", None),
    ],
)
def test_the_controllers_answer(gres: str, per_gpu: int | None) -> None:
    """`scontrol show node` has the sum of a node's shards."""
    assert on_slurm.shards_in(_NODE.replace("gpu:1,shard:8", gres)) == per_gpu


def test_shards_are_a_limit_by_themselves() -> None:
    """A quarter of what no program outside Slurm holds and half-card keeps free, less a context."""
    profile = load_profile("half-card", overrides={"memory": {"context": "640MiB"}}, environ={})
    environ = {**_SHARDS, **_EIGHT}
    assigned = assigned_share(profile, environ)
    card = Gpu(0, "GPU-1", "card", total_bytes=8 * GIB, free_bytes=7 * GIB, processes=())
    shared = with_share(Inventory((card,)), assigned)
    made = make_plan(profile, shared, environ=environ)
    (gpu,) = made.gpus
    assert gpu.limit_bytes == ((7 * 1024 - 128) // 4 - 640) * MIB
    assert "Slurm's share 0.25 × (8192 MiB total - 1024 MiB used by others" in made.notes[0]
    off = load_profile("half-card", overrides={"memory": {"share": "none"}}, environ={})
    assert assigned_share(off, environ) is None
