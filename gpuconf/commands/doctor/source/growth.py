"""Memory growth: on one GPU only, together with a limit, or with its errors swallowed."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.flow import CodeEvent, CodePath
from gpuconf.commands.doctor.source.script import (
    LISTS_GPUS,
    SETS_GROWTH,
    SETS_LIMIT,
    SETS_VISIBLE,
    Script,
    ScriptProblem,
    argument,
)

_SETTINGS = {SETS_GROWTH, SETS_LIMIT, SETS_VISIBLE}
_CAUGHT = {"RuntimeError", "ValueError", "Exception", "BaseException"}
_EVERY_GPU = "every GPU"
_LONGEST_FIX = 12
# The fix for growth and a limit on the same GPU.
ONE_OF_BOTH = (
    "# either: growth up to the limit of a profile, on every GPU\n"
    "import gpuconf.auto  # above keras and every framework\n"
    "# or: keep the limit, and let this variable bring the growth; before tensorflow\n"
    'import os\nos.environ["TF_FORCE_GPU_ALLOW_GROWTH"] = "true"'
)


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
            "growth is set for one GPU only; with a second one visible TensorFlow does not start",
            ("ValueError: Memory growth cannot differ between GPU devices",),
            growth_for_all(script),
        )


def growth_for_all(script: Script) -> str:
    return (
        f'for gpu in {script.tf}.config.list_physical_devices("GPU"):\n'
        f"    {script.tf}.config.experimental.set_memory_growth(gpu, True)"
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


def growth_and_limit(script: Script) -> Iterator[ScriptProblem]:
    """``source.growth_and_limit``: both on one GPU, which tf.config does not support."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            name = script.names.of(node.func) if isinstance(node, ast.Call) else ""
            if name not in (SETS_GROWTH, SETS_LIMIT) or script.uses_gpuconf_before(line, index):
                continue
            earlier = _other_setting(script, line, index, name)
            if earlier is not None:
                yield _both(script, node, earlier, growth_is_last=name == SETS_GROWTH)


def _other_setting(script: Script, line: CodePath, index: int, name: str) -> CodeEvent | None:
    here = line.steps[index]
    other = SETS_LIMIT if name == SETS_GROWTH else SETS_GROWTH
    for step in line.steps[:index]:
        node = step.node
        if not isinstance(node, ast.Call) or script.names.of(node.func) != other:
            continue
        if not step.excludes(here) and _same_gpu(script, node, here.node):
            growth = node if other == SETS_GROWTH else here.node
            if isinstance(growth, ast.Call) and _turns_on(script, growth):
                return step
    return None


def _same_gpu(script: Script, one: ast.AST, other: ast.AST) -> bool:
    if not isinstance(one, ast.Call) or not isinstance(other, ast.Call):
        return False
    first, second = argument(one, 0, "device"), argument(other, 0, "device")
    if first is None or second is None:
        return False
    gpus = _gpu_of(script, first), _gpu_of(script, second)
    if None in gpus:
        return ast.dump(first) == ast.dump(second)
    return gpus[0] == gpus[1] or _EVERY_GPU in gpus


def _both(
    script: Script, node: ast.AST, earlier: CodeEvent, *, growth_is_last: bool
) -> ScriptProblem:
    outcome = "raises ValueError" if growth_is_last else "makes TensorFlow drop the growth silently"
    second = "growth after a limit" if growth_is_last else "a limit after growth"
    return ScriptProblem(
        "source.growth_and_limit",
        "fail" if growth_is_last else "warn",
        node,
        f"{second} on the same GPU {outcome}",
        (f"the other one: {script.place(earlier.node)} ({ast.unparse(earlier.node)})",),
        ONE_OF_BOTH,
    )


def swallowed_errors(script: Script) -> Iterator[ScriptProblem]:
    """``source.error_swallowed``: the setting failed, and the training continues without it."""
    both = {problem.node for problem in growth_and_limit(script)}
    one_gpu = {problem.node for problem in one_gpu_only(script)}
    for node in ast.walk(script.tree):
        if not isinstance(node, ast.Try):
            continue
        setting = _setting_in(script, node)
        if setting is None:
            continue
        for handler in node.handlers:
            if _catches(handler) and all(map(_only_tells, handler.body)):
                inside = set(ast.walk(node))
                # The fix must not repeat what another finding has just called wrong.
                instead = ONE_OF_BOTH if both & inside else None
                instead = instead or (growth_for_all(script) if one_gpu & inside else None)
                yield _swallowed(script, node, handler, setting, instead)
                break


def _swallowed(
    script: Script, node: ast.Try, handler: ast.ExceptHandler, setting: str, instead: str | None
) -> ScriptProblem:
    body = instead or "\n".join(map(ast.unparse, node.body))
    if len(body.splitlines()) > _LONGEST_FIX:
        body = growth_for_all(script)
    why = "# no try: an error here means that the devices exist already"
    if instead == ONE_OF_BOTH:
        why = "# no try, and not both for one GPU:"
    caught = ast.unparse(handler.type) if handler.type else "everything"
    return ScriptProblem(
        "source.error_swallowed",
        "warn",
        handler,
        f"`except` lets the program go on where {setting} has failed",
        (f"it catches {caught}: TensorFlow's defaults would hold, all of every card, unnoticed",),
        f"{why}\n{body}",
    )


def _setting_in(script: Script, node: ast.Try) -> str | None:
    for statement in node.body:
        for each in ast.walk(statement):
            if isinstance(each, ast.Call) and script.names.of(each.func) in _SETTINGS:
                return script.names.of(each.func).rpartition(".")[2]
    return None


def _catches(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(each, ast.Name) and each.id in _CAUGHT for each in types)


def _only_tells(statement: ast.stmt) -> bool:
    """Whether a statement only prints or does nothing: pass, text, print(…), logger.warning(…)."""
    if isinstance(statement, ast.Pass | ast.Continue):
        return True
    if not isinstance(statement, ast.Expr):
        return False
    call = statement.value
    if isinstance(call, ast.Constant):
        return True
    if not isinstance(call, ast.Call):
        return False
    if isinstance(call.func, ast.Name):
        return call.func.id == "print"
    words = {"debug", "info", "warning", "warn", "error", "exception", "write", "print_exc"}
    return isinstance(call.func, ast.Attribute) and call.func.attr in words
