"""Variables for the frameworks' allocators: whether this version accepts them and keeps a cap."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from gpuconf.backends.torch.environment import OPTION_VARIABLES, options_in
from gpuconf.commands.doctor.checks.check import Check, fail, ok, skip, warn
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding

JAX_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
JAX_ALLOCATOR = "XLA_PYTHON_CLIENT_ALLOCATOR"
# From generate_pjrt_gpu_plugin_options of jaxlib 0.10.2, if no jaxlib can be read.
JAX_ALLOCATORS = ("default", "platform", "bfc", "cuda_async", "vmm")
_ON_THE_CPU = "JAX uses the CPU, and only its log has the ValueError"
_TF_ALLOCATOR = "TF_GPU_ALLOCATOR"
_UNCACHED = "PYTORCH_NO_CUDA_MEMORY_CACHING"
# torch accepts only True and False here, and otherwise stops (2.9.1 and 2.15.0).
_TORCH_SWITCHES = ("expandable_segments", "release_lock_on_cudamalloc",
                   "pinned_use_cuda_host_register", "pinned_use_background_threads",
                   "graph_capture_record_stream_reuse", "throw_on_cudamalloc_oom")  # fmt: skip
# From the libraries of torch 2.4 to 2.15; tests/commands/doctor/test_doctor_builds.py compares
# them.
KNOWN_OPTIONS = (
    *("backend", "expandable_segments", "expandable_segments_reserve"),
    *("expandable_segments_reserve_by_class", "garbage_collection_threshold"),
    *("graph_capture_record_stream_reuse", "large_segment_size_mb", "max_non_split_rounding_mb"),
    *("max_split_size_mb", "per_process_memory_fraction", "pinned_free_catch_all"),
    *("pinned_max_cached_size_mb", "pinned_max_round_threshold_mb", "pinned_num_register_threads"),
    *("pinned_reserve_segment_size_mb", "pinned_use_background_threads"),
    *("pinned_use_cuda_host_register", "pinned_use_hip_host_register"),
    *("release_lock_on_cudamalloc", "release_lock_on_hipmalloc", "roundup_power2_divisions"),
    "throw_on_cudamalloc_oom",
)
_ALIKE = 0.75
_TORCH_BACKENDS = ("native", "cudaMallocAsync")
_LEAST_SPLIT_MB = 21  # 2.9.1 requires more than 20 MB, 2.15.0 at least 20


def _jax_fraction(facts: Facts) -> Finding:
    """From jaxlib/xla_client.py, generate_pjrt_gpu_plugin_options; an empty value counts as unset.

    If it rejects a value, the plugin does not start and JAX uses the CPU (seen on 0.10.2).
    """
    found = {name: facts.environ[name] for name in JAX_FRACTIONS if facts.environ.get(name)}
    if not found:
        return skip("no fraction is set for JAX")
    build = facts.packages.jax
    read = (build.fractions if build else ()) or JAX_FRACTIONS
    if unread := [name for name in found if name not in read]:
        name = unread[0]
        share = meant_share(found[name]) if why_not_share(name, found[name]) else found[name]
        export = "" if read[0] in found else f"; export {read[0]}={share.strip()}"
        return warn(
            f"{name} is not read by jaxlib {facts.packages.version('jaxlib')}",
            fix=f"unset {name}{export}",
        )
    if len(found) == 2:
        return fail(
            f"{' and '.join(found)} are both set: {_ON_THE_CPU}",
            fix=f"unset {JAX_FRACTIONS[1]}",
        )
    ((name, value),) = found.items()
    if (why := why_not_share(name, value)) is not None:
        return fail(why, fix=f"export {name}={meant_share(value)}")
    return ok(f"{name}={value}")


def why_not_share(name: str, value: str) -> str | None:
    """Why JAX rejects a fraction; None if it accepts it."""
    try:
        is_share = 0 < float(value) <= 1
    except ValueError:
        is_share = False
    return None if is_share else f"{name}={value} is not a share of a card, from 0 to 1"


def meant_share(value: str) -> str:
    """The intended share if the value is a percentage, otherwise JAX's default."""
    try:
        share = float(value.rstrip("%")) / 100
    except ValueError:
        share = 0.0
    return f"{share:.2f}" if 0.01 <= share <= 1 else "0.75"


def _allocator(facts: Facts) -> Finding:
    """TensorFlow's gpu_process_state.cc knows three values and ignores all others."""
    tensorflow, jax = facts.environ.get(_TF_ALLOCATOR), facts.environ.get(JAX_ALLOCATOR)
    build = facts.packages.jax
    known = (build.allocators if build else ()) or JAX_ALLOCATORS
    if jax and jax.lower() not in known:
        return fail(
            f"{JAX_ALLOCATOR}={jax} is not a JAX allocator: {_ON_THE_CPU}",
            f"it takes {', '.join(known)}",
            fix=f"unset {JAX_ALLOCATOR}",
        )
    if tensorflow in ("cuda_malloc_async", "cuda_malloc"):
        return warn(
            f"with {_TF_ALLOCATOR}={tensorflow} TensorFlow's memory limit is not a cap",
            "it helps where memory is fragmented, and takes what it needs",
            fix=f"unset {_TF_ALLOCATOR}",
        )
    if jax and jax.lower() == "platform":
        return warn(
            f"with {JAX_ALLOCATOR}=platform JAX takes memory call by call, without a cap, slowly",
            fix=f"unset {JAX_ALLOCATOR}",
        )
    if tensorflow and tensorflow != "memory_guard":
        return warn(
            f"{_TF_ALLOCATOR}={tensorflow} is not a TensorFlow allocator, so TensorFlow ignores it",
            "it takes cuda_malloc_async, and for debugging cuda_malloc and memory_guard",
            fix=f"unset {_TF_ALLOCATOR}",
        )
    if not tensorflow and not jax:
        return skip("no allocator is chosen by a variable")
    return ok("the chosen allocators respect limits")


def _torch_allocator(facts: Facts) -> Finding:
    """An option that torch does not know stops it when CUDA starts, or at import."""
    given = {name: facts.environ[name] for name in OPTION_VARIABLES if facts.environ.get(name)}
    if facts.packages.version("torch") is None:
        return skip("torch is not installed for this Python")
    if facts.environ.get(_UNCACHED) not in (None, "", "0"):
        return warn(
            f"with {_UNCACHED}={facts.environ[_UNCACHED]} torch takes memory call by call, "
            "without a cap",
            fix=f"unset {_UNCACHED}",
        )
    if not given:
        return skip("no variable sets torch's allocator")
    refused = {name: why for name, value in given.items() if (why := _refusals(value, facts))}
    if len(set(given.values())) > 1:
        return warn(
            f"{' and '.join(given)} are both set and differ: which one torch takes depends on "
            "its release",
            fix=f"unset {next(iter(refused), OPTION_VARIABLES[0])}",
        )
    if refused:
        name, reasons = next(iter(refused.items()))
        return fail(
            f"{name}: torch {facts.packages.version('torch')} does not start with it: "
            f"{'; '.join(reasons.values())}",
            fix=_without(name, given[name], reasons),
        )
    return ok(", ".join(f"{name}={value}" for name, value in given.items()))


def _refusals(value: str, facts: Facts) -> dict[str, str]:
    """The options in ``value`` that torch rejects, each with the reason."""
    build = facts.packages.torch
    unknown = build.unknown_options if build else ()
    reasons = [
        (option, f"it has no option {option}" if option in unknown else why_not_value(option, text))
        for option, text in options_in(value)
    ]
    return {option: why for option, why in reasons if why is not None}


def meant_option(name: str) -> str | None:
    """The option that ``name`` misspells; None if it is known, or similar to none.

    A newer torch may have more options.
    """
    from difflib import get_close_matches  # slow import, and misspellings are rare

    close = get_close_matches(name, KNOWN_OPTIONS, n=1, cutoff=_ALIKE)
    return close[0] if close and name not in KNOWN_OPTIONS else None


def why_not_value(option: str, value: str) -> str | None:
    """Why every torch rejects this value of an allocator option; None if some torch accepts it."""
    if option in _TORCH_SWITCHES and value not in ("True", "False"):
        return f"{option} is True or False, and not {value or 'empty'}"
    if option == "backend" and value not in _TORCH_BACKENDS:
        return f"backend is {' or '.join(_TORCH_BACKENDS)}, and not {value or 'empty'}"
    if option == "garbage_collection_threshold" and not 0 < _number(value) < 1:
        return f"{option} is between 0 and 1, and not {value or 'empty'}"
    if option == "max_split_size_mb" and _number(value) < _LEAST_SPLIT_MB:
        return f"{option} is at least {_LEAST_SPLIT_MB}, and not {value or 'empty'}"
    return None


def _number(text: str) -> float:
    """Parse a number; 0, which every option rejects, if it is not one."""
    try:
        return float(text)
    except ValueError:
        return 0.0


def _without(name: str, value: str, refused: Iterable[str]) -> str:
    """The command that sets the variable to its value without these options."""
    kept = [f"{option}:{text}" for option, text in options_in(value) if option not in refused]
    return f"export {name}={shlex.quote(','.join(kept))}" if kept else f"unset {name}"


CHECKS = (
    Check("environment.jax_fraction", "JAX's memory fraction is set once, and is a share",
          _jax_fraction),
    Check("environment.allocator", "no allocator is chosen that voids a memory limit", _allocator),
    Check("environment.torch_allocator", "torch understands the options for its allocator",
          _torch_allocator),
)  # fmt: skip
