"""Values that PyTorch and JAX reject, in variables that a script sets and in its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.backends.torch.environment import OPTION_VARIABLES, options_in
from gpuconf.commands.doctor.checks.allocators import (
    JAX_ALLOCATOR,
    JAX_ALLOCATORS,
    JAX_FRACTIONS,
    meant_option,
    meant_share,
    why_not_share,
    why_not_value,
)
from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, argument

_SETS_FRACTION = "torch.cuda.set_per_process_memory_fraction"


def refused_values(script: Script) -> Iterator[ScriptProblem]:
    """``source.refused_value``: a value that stops PyTorch, or sends JAX to the CPU."""
    set_first: str | None = None
    for node in ast.walk(script.tree):
        for name, expression in settings_at(script, node):
            value = script.constant(expression)
            if isinstance(value, str) and (refusal := _why_not(name, value)) is not None:
                yield _problem(node, *refusal)
            if name in JAX_FRACTIONS and value != "":
                if set_first not in (None, name):
                    why = f"{' and '.join(JAX_FRACTIONS)} are both set: JAX uses the CPU"
                    yield _problem(node, why, f'os.environ.pop("{JAX_FRACTIONS[1]}", None)')
                set_first = name
    for call, name in script.calls():
        if name == _SETS_FRACTION:
            yield from _fraction(script, call)


def _why_not(name: str, value: str) -> tuple[str, str] | None:
    """Why the framework rejects the value of a variable, and the corrected line."""
    if name == "JAX_PLATFORMS" and "gpu" in value.split(","):
        meant = ",".join("cuda" if each == "gpu" else each for each in value.split(","))
        why = f"{name}={value} asks for cuda and rocm both, and JAX does not start"
        return why, f'os.environ["{name}"] = "{meant}"'
    if name == JAX_ALLOCATOR and value and value.lower() not in (*JAX_ALLOCATORS, "address"):
        why = f"{name}={value} is not a JAX allocator, which uses the CPU then"
        return why, f'os.environ["{name}"] = "default"'
    if name in JAX_FRACTIONS and value and (no_share := why_not_share(name, value)) is not None:
        return no_share, f'os.environ["{name}"] = "{meant_share(value)}"'
    return _why_not_torch(name, value) if name in OPTION_VARIABLES else None


def _why_not_torch(name: str, value: str) -> tuple[str, str] | None:
    """The same for the options of torch's allocator."""
    reasons, kept = [], []
    for option, text in options_in(value):
        meant = meant_option(option) or option
        refusal = why_not_value(meant, text)
        if meant != option:
            reasons.append(f"no release has an option {option}")
        if refusal is not None:
            reasons.append(refusal)
        else:
            kept.append(f"{meant}:{text}" if text else meant)
    if not reasons:
        return None
    fix = f'os.environ["{name}"] = "{",".join(kept)}"'
    why = f"PyTorch does not start with this {name}: {'; '.join(reasons)}"
    return why, fix if kept else f'os.environ.pop("{name}", None)'


def _fraction(script: Script, call: ast.Call) -> Iterator[ScriptProblem]:
    """A fraction for which torch raises ValueError."""
    fraction = argument(call, 0, "fraction")
    value = script.constant(fraction) if fraction is not None else None
    if isinstance(value, (int, float)) and not 0 <= value <= 1:
        share = value / 100 if 1 < value <= 100 else 0.5
        why = f"set_per_process_memory_fraction takes a share from 0 to 1, and not {value}"
        yield _problem(call, why, f"{ast.unparse(call.func)}({share:g})")


def _problem(node: ast.AST, summary: str, fix: str) -> ScriptProblem:
    return ScriptProblem("source.refused_value", "fail", node, summary, (), fix)
