"""Variables whose value a framework refuses or ignores, by `variables.yaml` or on this machine.

``facts.environ`` is the user's environment, without the variables that gpuconf set.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping

from gpuconf.commands.doctor import variables
from gpuconf.commands.doctor.checks.check import Check, fail, ok, skip, warn
from gpuconf.commands.doctor.checks.packages import cuda_plugins, jax_for_gpus, tensorflow_name
from gpuconf.commands.doctor.facts import Facts
from gpuconf.commands.doctor.finding import Finding

_OfMachine = Callable[[Facts, Mapping[str, str]], Finding | None]


def _nothing_more(_: Facts, __: Mapping[str, str]) -> None:
    """For a variable that is right or wrong on every machine."""


def _judged(check: str, of_machine: _OfMachine = _nothing_more) -> Callable[[Facts], Finding]:
    """A check of the table's variables: first what depends on this machine, then their values."""

    def judge(facts: Facts) -> Finding:
        names = [name for name, rule in variables.table().items() if rule["check"] == check]
        given = {name: facts.environ[name] for name in names if name in facts.environ}
        if not given:
            return skip(f"not set: {', '.join(names)}")
        if (found := of_machine(facts, given)) is not None:
            return found
        build = facts.packages.torch
        unknown = build.unknown_options if build else ()
        bad = [
            (name, each)
            for name, value in given.items()
            for each in variables.bad_values(name, value, unknown)
        ]
        for name, each in sorted(bad, key=lambda found: found[1].status):  # fail before warn
            fix = f"unset {name}"
            if each.meant is not None:
                fix = f"export {name}={shlex.quote(each.meant)}"
            return Finding("", each.status, each.why, each.notes, fix)
        return ok(", ".join(f"{name}={value}" for name, value in given.items()))

    return judge


def _jax_fraction(facts: Facts, given: Mapping[str, str]) -> Finding | None:
    """Which of the two this jaxlib reads; with both, its plugin does not start (0.10.2)."""
    found = {name: value for name, value in given.items() if value}
    build = facts.packages.jax
    read = (build.fractions if build else ()) or tuple(found)
    if unread := [name for name in found if name not in read]:
        name = unread[0]
        bad = next(variables.bad_values(name, found[name]), None)
        share = found[name] if bad is None else bad.meant
        export = "" if read[0] in found else f"; export {read[0]}={share}"
        return warn(
            f"{name} is not read by jaxlib {facts.packages.version('jaxlib')}",
            fix=f"unset {name}{export}",
        )
    if len(found) == 2:
        return fail(
            f"{' and '.join(found)} are both set: JAX uses the CPU, and only its log shows the "
            "ValueError",
            fix=f"unset {list(found)[1]}",
        )
    return None


def _allocator(facts: Facts, given: Mapping[str, str]) -> Finding | None:
    """Allocators that the installed jaxlib lacks: 0.4.38 has no `vmm`, for example."""
    name = "XLA_PYTHON_CLIENT_ALLOCATOR"
    value, build = given.get(name, ""), facts.packages.jax
    known = build.allocators if build else ()
    if not value or not known or value.lower() in known:
        return None
    return fail(
        f"{name}={value} is not an allocator of jaxlib {facts.packages.version('jaxlib')}: JAX "
        "uses the CPU, and only its log shows the ValueError",
        f"its allocators are {', '.join(known)}",
        fix=f"unset {name}",
    )


def _torch(facts: Facts, given: Mapping[str, str]) -> Finding | None:
    """Two variables for the same options; which one torch reads depends on its version."""
    if facts.packages.version("torch") is None:
        return skip("torch is not installed for this Python")
    options = {name: value for name, value in given.items() if value and name.endswith("CONF")}
    if len(set(options.values())) < 2:
        return None
    bad = [name for name, value in options.items() if any(variables.bad_values(name, value))]
    return warn(
        f"{' and '.join(options)} are both set and differ: which one torch uses depends on its "
        "version",
        fix=f"unset {next(iter([*bad, *options]))}",
    )


def _jax_platforms(facts: Facts, given: Mapping[str, str]) -> Finding | None:
    """A platform that is named must start; without the variable, JAX uses whatever is available."""
    ((name, value),) = given.items()
    named = value.split(",")
    plugins = cuda_plugins(facts.packages)
    wants_cuda = bool({"cuda", "gpu"} & {*named})
    if not value:
        return skip(f"{name} is empty")
    if facts.packages.version("jax") is None:
        return skip("JAX is not installed")
    if wants_cuda and not plugins:
        return fail(
            f"{name}={value}, but JAX has no CUDA plugin, so it does not start",
            fix=jax_for_gpus(facts.packages),
        )
    if not wants_cuda and plugins and facts.has_gpu:
        return warn(f"{name}={value} keeps JAX off the GPU", fix=f"unset {name}")
    return None


def _legacy_keras(facts: Facts, given: Mapping[str, str]) -> Finding | None:
    """What it requests must be installed."""
    ((name, value),) = given.items()
    version = facts.packages.version(tensorflow_name(facts.packages) or "")
    if value in ("true", "True", "1") and version and not facts.packages.version("tf-keras"):
        return fail(
            f"{name}={value} requests tf_keras, which is not installed",
            fix=f"pip install 'tf_keras~={'.'.join(version.split('.')[:2])}.0'",
        )
    return None


CHECKS = (
    Check("environment.growth", "TF_FORCE_GPU_ALLOW_GROWTH has a value that TensorFlow reads",
          _judged("growth")),
    Check("environment.jax_platforms", "JAX_PLATFORMS allows the GPU, and its plugin is installed",
          _judged("jax_platforms", _jax_platforms)),
    Check("environment.legacy_keras", "TF_USE_LEGACY_KERAS is valid, and tf_keras is installed",
          _judged("legacy_keras", _legacy_keras)),
    Check("environment.jax_fraction", "JAX's memory fraction is set once, and is between 0 and 1",
          _judged("jax_fraction", _jax_fraction)),
    Check("environment.allocator", "no allocator is chosen that disables a memory limit",
          _judged("allocator", _allocator)),
    Check("environment.torch_allocator", "torch understands the options for its allocator",
          _judged("torch_allocator", _torch)),
)  # fmt: skip
