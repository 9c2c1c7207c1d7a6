"""Memory growth that is set for one of several GPUs."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.script import (
    LISTS_GPUS,
    SETS_GROWTH,
    SETS_VISIBLE,
    Script,
    ScriptProblem,
    argument,
)

_EVERY_GPU = "every GPU"


def one_gpu_only(script: Script) -> Iterator[ScriptProblem]:
    """``source.growth_one_gpu``: if two GPUs are visible, TensorFlow refuses to start."""
    calls = [
        call for call, name in script.calls() if name == SETS_GROWTH and _turns_on(script, call)
    ]
    gpus = {call: _gpu_of(script, argument(call, 0, "device")) for call in calls}
    numbered = {gpu for gpu in gpus.values() if gpu is not None}
    if len(numbered) > 1 or _EVERY_GPU in numbered or _narrows_visibility(script):
        return
    for call, gpu in gpus.items():
        if gpu is None or _asks_for_the_number(script, call) or _has_gpuconf(script, call):
            continue
        yield ScriptProblem(
            "source.growth_one_gpu",
            "warn",
            call,
            "growth is set for one GPU only; with a second GPU visible, TensorFlow does not start",
            ("ValueError: Memory growth cannot differ between GPU devices",),
            f'for gpu in {script.tf}.config.list_physical_devices("GPU"):\n'
            f"    {script.tf}.config.experimental.set_memory_growth(gpu, True)",
        )


def _turns_on(script: Script, call: ast.Call) -> bool:
    return script.constant(argument(call, 1, "enable")) is True


def _gpu_of(script: Script, node: ast.expr | None) -> str | None:
    """The GPU that an argument names: a number, every GPU (a loop variable), or None (unknown)."""
    if isinstance(node, ast.Name) and None in script.values_of(node.id):
        return _EVERY_GPU if _is_loop_variable(script, node) else None
    node = script.value(node)
    if not isinstance(node, ast.Subscript):
        return None
    number = script.constant(node.slice)
    if isinstance(number, int):
        return str(number) if _is_gpu_list(script, node.value) else None
    return _EVERY_GPU if _is_loop_variable(script, node.slice) else None


def _is_gpu_list(script: Script, node: ast.expr) -> bool:
    """Whether ``node`` is ``list_physical_devices(…)``, or a variable with no other value."""
    values = script.values_of(node.id) if isinstance(node, ast.Name) else [node]
    return bool(values) and all(
        isinstance(each, ast.Call) and script.names.of(each.func) == LISTS_GPUS for each in values
    )


def _is_loop_variable(script: Script, node: ast.expr) -> bool:
    """Whether ``node`` is the variable of a loop or comprehension around it."""
    if not isinstance(node, ast.Name):
        return False
    for each in script.above(node):
        loops = [each] if isinstance(each, ast.For) else getattr(each, "generators", [])
        for loop in loops:
            names = {part.id for part in ast.walk(loop.target) if isinstance(part, ast.Name)}
            if node.id in names:
                return True
    return False


def _narrows_visibility(script: Script) -> bool:
    """Whether the script restricts TensorFlow to one GPU, or may do so."""
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Call) and script.names.of(node.func) == SETS_VISIBLE:
            return True
        if any(each.variable == "CUDA_VISIBLE_DEVICES" for each in settings_at(script, node)):
            return True
    return False


def _asks_for_the_number(script: Script, call: ast.Call) -> bool:
    """Whether the call is under ``if len(gpus) == 1``."""
    tests = [each.test for each in script.above(call) if isinstance(each, ast.If)]
    for part in (part for test in tests for part in ast.walk(test)):
        if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Eq):
            left = part.left
            if isinstance(left, ast.Call) and isinstance(left.func, ast.Name):
                return left.func.id == "len"
    return False


def _has_gpuconf(script: Script, call: ast.Call) -> bool:
    """Whether gpuconf's guards see the call on every path to it."""
    places = [
        (line, index)
        for line in script.lines
        for index, step in enumerate(line.steps)
        if step.node is call
    ]
    return bool(places) and all(script.uses_gpuconf_before(*place) for place in places)
