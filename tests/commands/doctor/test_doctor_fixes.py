"""The fixes for environment variables: once bash has run one, its check has nothing against it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuconf.commands.doctor.checks import CHECKS, run_check
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding
from tests.commands.doctor.doctor_cases import TROUBLES, Case, facts_of
from tests.commands.doctor.shell_fixes import environment_after

ENVIRONMENT = [check for check in CHECKS if check.id.startswith("environment.")]
UNKNOWN_OPTION = "per_process_memory_fraction"
T400 = {"index": 1, "uuid": "GPU-1", "name": "NVIDIA T400", "compute_capability": [7, 5]}
OLD_JAX = {"fractions": ["XLA_PYTHON_CLIENT_MEM_FRACTION"]}
TORCH = {"installed": {"torch": ["2.9.1+cu128"]}, "torch": {"cuda_version": "12.8"}}
OPTIONS_UNKNOWN = {"torch": {"cuda_version": "12.8", "unknown_options": [UNKNOWN_OPTION]}}
MACHINES = (
    facts_of({}),
    facts_of({"gpus": [{}, T400]}),
    facts_of({"packages": {"jax": OLD_JAX}}),
    facts_of({"packages": TORCH}),
    facts_of({"packages": {**TORCH, **OPTIONS_UNKNOWN}}),
)
FRACTIONS = st.sampled_from([".5", "90", " 80%", "half", "0"])
OPTIONS = st.lists(
    st.sampled_from(
        [
            *("max_split_size_mb:8", "max_split_size_mb:64", "expandable_segments:true"),
            *("garbage_collection_threshold:80%", "backend:async", f"{UNKNOWN_OPTION}:0.3"),
            *("roundup_power2_divisions:[256:1,>:4]", "expandable_segments:True"),
        ]
    )
).map(",".join)
VALUES = {
    "TF_FORCE_GPU_ALLOW_GROWTH": st.sampled_from(["1", "True", "no", ""]),
    "TF_USE_LEGACY_KERAS": st.sampled_from(["1", "yes", "no", "off"]),
    "TF_GPU_ALLOCATOR": st.sampled_from(["cuda_malloc_async", "async"]),
    "CUDA_VISIBLE_DEVICES": st.sampled_from(["-1", "", "0,7", "7", "0,0", "GPU-0e8d"]),
    "CUDA_DEVICE_ORDER": st.sampled_from(["PCI", "FASTEST_FIRST"]),
    "JAX_PLATFORMS": st.sampled_from(["gpu", "gpu,cpu", "cpu", "cuda"]),
    "XLA_PYTHON_CLIENT_ALLOCATOR": st.sampled_from(["platform", "vmm", "async"]),
    "XLA_CLIENT_MEM_FRACTION": FRACTIONS,
    "XLA_PYTHON_CLIENT_MEM_FRACTION": FRACTIONS,
    "PYTORCH_ALLOC_CONF": OPTIONS,
    "PYTORCH_CUDA_ALLOC_CONF": OPTIONS,
    "PYTORCH_NO_CUDA_MEMORY_CACHING": st.just("1"),
    "GPUCONF_DISABLE": st.sampled_from(["1", "maybe"]),
}


def troubles(facts: Facts) -> dict[str, Finding]:
    """What the checks of the environment have against ``facts``, by id."""
    found = [run_check(check, facts) for check in ENVIRONMENT]
    return {each.id: each for each in found if each.status not in ("ok", "skip")}


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> set[str]:
    """The variables that differ."""
    return {name for name in {*before, *after} if before.get(name) != after.get(name)}


def follow_all_fixes(facts: Facts) -> None:
    """Run the fixes of each check until it is content; fail if it takes one of its own back."""
    for check in ENVIRONMENT:
        fixed: set[str] = set()
        now = facts
        while check.id in (found := troubles(now)):
            after = environment_after(found[check.id].fix or "", now.environ)
            if after is None:  # it also installs or starts something
                break
            touched = changed(now.environ, after)
            assert touched, f"changes nothing: {found[check.id]}"
            assert not touched & fixed, f"the fix before was refused: {found[check.id]}"
            fixed |= touched
            now = now._replace(environ=after)
            assert set(troubles(now)) <= set(found), "another check refuses the fix"


WITH_VARIABLES = [
    case for case in TROUBLES if case.id.startswith("environment.") and case.facts.environ
]


@pytest.mark.parametrize("case", WITH_VARIABLES, ids=lambda case: case.id)
def test_no_fix_of_the_tables_is_refused(case: Case) -> None:
    """Each machine with a wrong variable that the tables of cases have."""
    follow_all_fixes(case.facts)


@given(st.sampled_from(MACHINES), st.fixed_dictionaries({}, optional=VALUES))
def test_no_fix_is_refused(machine: Facts, environ: dict[str, str]) -> None:
    """Any variables at the same time: no check is against what its own fix, or another's, sets."""
    follow_all_fixes(machine._replace(environ=environ))
