"""Values that a framework refuses or ignores, in variables that a script sets and in its calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.finding import Status
from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.script import SETS_LIMIT, Script, ScriptProblem, argument
from gpuconf.commands.doctor.variables import bad_values

_FRACTIONS = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION")
_SETS_FRACTION = "torch.cuda.set_per_process_memory_fraction"


def refused_values(script: Script) -> Iterator[ScriptProblem]:
    """``source.refused_value``: what stops PyTorch, sends JAX to the CPU, or is ignored."""
    set_first: str | None = None
    for node in ast.walk(script.tree):
        for name, expression in settings_at(script, node):
            value = script.constant(expression)
            for bad in bad_values(name, value) if isinstance(value, str) else ():
                if not bad.is_taken or (name == "TF_GPU_ALLOCATOR" and _has_limit(script)):
                    fix = f'os.environ["{name}"] = "{bad.meant}"'
                    if bad.meant is None:
                        fix = f'os.environ.pop("{name}", None)'
                    yield _problem(node, bad.why, fix, bad.status)
            if name in _FRACTIONS and value != "":
                if set_first not in (None, name):
                    why = f"{' and '.join(_FRACTIONS)} are both set: JAX uses the CPU"
                    yield _problem(node, why, f'os.environ.pop("{_FRACTIONS[1]}", None)')
                set_first = name
    for call, name in script.calls():
        if name == _SETS_FRACTION:
            yield from _fraction(script, call)


def _has_limit(script: Script) -> bool:
    """Whether the script limits TensorFlow's memory, a limit that another allocator ignores."""
    return any(
        name == SETS_LIMIT
        or any(each.arg == "per_process_gpu_memory_fraction" for each in call.keywords)
        for call, name in script.calls()
    )


def _fraction(script: Script, call: ast.Call) -> Iterator[ScriptProblem]:
    """A fraction for which torch raises ValueError."""
    fraction = argument(call, 0, "fraction")
    value = script.constant(fraction) if fraction is not None else None
    if isinstance(value, (int, float)) and not 0 <= value <= 1:
        share = value / 100 if 1 < value <= 100 else 0.5
        why = f"set_per_process_memory_fraction accepts a fraction from 0 to 1, not {value}"
        yield _problem(call, why, f"{ast.unparse(call.func)}({share:g})")


def _problem(node: ast.AST, summary: str, fix: str, status: Status = "fail") -> ScriptProblem:
    return ScriptProblem("source.refused_value", status, node, summary, (), fix)
