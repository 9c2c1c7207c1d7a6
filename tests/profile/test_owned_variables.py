"""Which profile key decides which environment variable: one table, which the backends follow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuconf.backends import environment_changes
from gpuconf.basics.environment import Change
from gpuconf.basics.units import GIB
from gpuconf.errors import ProfileError
from gpuconf.machine.cards.inventory import Gpu, Inventory
from gpuconf.planner.planning import make_plan
from gpuconf.profile import Profile, load_profile
from gpuconf.profile.owned_variables import OWNED_VARIABLES
from gpuconf.profile.schema import PROFILE, Key, PerGpu, Section

# A profile's env may set these too: the key needs them for a part of what it does.
SHARED = {"TF_USE_LEGACY_KERAS": "tensorflow.session", "HIP_VISIBLE_DEVICES": "gpus"}
MACHINE = Inventory((Gpu(0, "GPU-1", total_bytes=8 * GIB, free_bytes=8 * GIB), Gpu(1)))
ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {},
    {"XLA_CLIENT_MEM_FRACTION": ".5"},
    {"PYTORCH_ALLOC_CONF": "a:b"},
)


def written(keys: tuple[Key, ...], prefix: str = "") -> Iterator[str]:
    """Each key with its example, or in turn with each word that it takes, as YAML."""
    for key in keys:
        if isinstance(key.rule, Section):
            yield from written(key.rule.keys, f"{key.name}: {{%s}}")
            continue
        schema = {} if isinstance(key.rule, PerGpu) else key.rule.schema
        for value in schema.get("enum", [key.example]):
            line = f"{key.name}: {value}"
            yield prefix % line if prefix else line


def profiles(folder: object) -> Iterator[Profile]:
    """A profile for every key and word."""
    lines = [*written(PROFILE.keys), "memory: {memory_limit: 1GiB}", "gpus: none"]
    for number, line in enumerate(lines):
        file = f"{folder}/{number}.yaml"
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(line + "\n")
        yield load_profile(file, environ={})


def changes(profile: Profile) -> Iterator[Change]:
    """Whatever the backends would set for ``profile``, in several environments."""
    for baseline in ENVIRONMENTS:
        for inventory in (MACHINE, MACHINE._replace(gpus=(Gpu(0), Gpu(2)))):
            try:
                plan = make_plan(profile, inventory, environ=baseline)
            except ProfileError:  # names a GPU that this machine lacks
                continue
            yield from environment_changes(
                profile, plan, baseline, has_tf_keras=True, has_amd_gpu=True, has_cupy=True
            )


def test_an_amd_gpu_is_hidden_with_the_others() -> None:
    """By a profile that hides the GPUs, with or without a plan, and by no other."""
    for name, plan, expected in (
        ("cpu-only", None, "-1"),
        ("cpu-only", MACHINE, "-1"),
        ("half-card", MACHINE, None),
        ("half-card", MACHINE._replace(gpus=()), None),
    ):
        profile = load_profile(name, environ={})
        made = make_plan(profile, plan, environ={}) if plan else None
        found = environment_changes(profile, made, {}, has_amd_gpu=True)
        assert {each.name: each.value for each in found}.get("HIP_VISIBLE_DEVICES") == expected


def test_every_variable_that_a_backend_sets_is_owned_by_its_key(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """A key that sets a variable is in the table, or `env` could set the same one."""
    folder = tmp_path_factory.mktemp("profiles")
    found = {(c.name, c.setting) for each in profiles(folder) for c in changes(each)}
    made = {(name, key) for name, key in found if not key.startswith("env.")}
    assert {name for name, _ in made} == {*OWNED_VARIABLES, *SHARED}
    owners = OWNED_VARIABLES | SHARED
    assert [pair for pair in made if not owners[pair[0]].startswith(pair[1])] == []


@pytest.mark.parametrize("name", OWNED_VARIABLES)
def test_env_refuses_it_and_names_the_key(name: str) -> None:
    """The hint is the key to write in its place."""
    with pytest.raises(ProfileError) as caught:
        load_profile("cpu-only", overrides={"env": {name: "1"}}, environ={})
    assert f"`{OWNED_VARIABLES[name]}`" in str(caught.value.hint)
