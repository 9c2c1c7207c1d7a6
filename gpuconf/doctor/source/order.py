"""What must come first: `import gpuconf.auto`, and settings before the devices they are for."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.doctor.source import makers
from gpuconf.doctor.source.flow import Line, Step
from gpuconf.doctor.source.script import (
    SETS_GROWTH,
    SETS_LIMIT,
    SETS_VISIBLE,
    Problem,
    Script,
    first_in,
    imported_modules,
    imports_tensorflow,
)

_OUR_LINE = "`import gpuconf.auto` as the first line, before tensorflow and keras"
_SETTINGS = {
    SETS_GROWTH: "set_memory_growth",
    SETS_LIMIT: "set_logical_device_configuration",
    SETS_VISIBLE: "set_visible_devices",
}
_OTHER_FRAMEWORKS = ("jax", "torch", "flax")


def missing_auto(script: Script) -> Iterator[Problem]:
    """``source.auto_missing``: a script that computes, and to which no profile applies."""
    imports = [
        node for node in ast.walk(script.tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    if any(script.starts_gpuconf(node) for node in ast.walk(script.tree)):
        return
    for node in sorted(imports, key=lambda each: each.lineno):
        roots = {module.partition(".")[0] for module in imported_modules(node)}
        if imports_tensorflow(node) or roots & set(_OTHER_FRAMEWORKS):
            yield Problem(
                "source.auto_missing",
                "ok",
                node,
                "no profile applies to the script, since it does not import gpuconf.auto: no fault",
                (f"to have one: {_OUR_LINE}; or call gpuconf.configure() there",),
                None,
            )
            return


def late_auto(script: Script) -> Iterator[Problem]:
    """``source.auto_late``: our line after TensorFlow's import, or even after its devices."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            if not script.starts_gpuconf(node) or script.uses_gpuconf_before(line, index):
                continue
            our_line = ast.unparse(node)
            if (made := _made_before(script, line, index)) is not None:
                where = f"{script.place(made.node)} ({_short(made.node)})"
                yield _late_auto(
                    node, "fail", "TensorFlow's devices exist before it", where, our_line
                )
            elif (step := _imported_before(line, index)) is not None:
                where = f"{script.place(step.node)} ({_short(step.node)})"
                yield _late_auto(node, "warn", "TensorFlow is imported before it", where, our_line)


def _late_auto(node: ast.AST, status: str, what: str, where: str, our_line: str) -> Problem:
    is_fail = status == "fail"
    why = "so it raises TooLateError" if is_fail else "variables read at import stay as they were"
    return Problem(
        "source.auto_late",
        "fail" if is_fail else "warn",
        node,
        f"`{our_line}` comes too late: {what}",
        (f"{where}; {why}",),
        f"{our_line}  # the first line, before tensorflow and keras",
    )


def _imported_before(line: Line, index: int) -> Step | None:
    found = [step for step in line.steps[:index] if imports_tensorflow(step.node)]
    return first_in(line, index, found)


def _made_before(script: Script, line: Line, index: int) -> Step | None:
    found = [
        step for step in line.steps[:index] if makers.is_maker(script, step.node, makers.TENSORFLOW)
    ]
    return first_in(line, index, found)


def early_devices(script: Script) -> Iterator[Problem]:
    """``source.devices_early``: devices are made before the settings that they should get."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            name = script.names.of(node.func) if isinstance(node, ast.Call) else ""
            if name not in _SETTINGS:
                continue
            if name != SETS_VISIBLE and script.uses_gpuconf_before(line, index):
                continue  # its guards take the call, and the plan holds
            made = _made_before(script, line, index)
            if made is not None:
                yield _too_late(script, node, made, name)


def _too_late(script: Script, node: ast.AST, made: Step, name: str) -> Problem:
    maker = made.node
    assert isinstance(maker, ast.Call)  # is_maker saw one
    is_silent = script.names.of(maker.func) in makers.TENSORFLOW_SILENT
    outcome = "is ignored without a word" if is_silent else "raises RuntimeError"
    return Problem(
        "source.devices_early",
        "fail",
        node,
        f"{_SETTINGS[name]} {outcome}: the devices exist already",
        (f"made at {script.place(maker)} ({_short(maker)})",),
        f"{_moved(script, node)}  # before the devices are made\n{_short(maker)}",
    )


def _moved(script: Script, node: ast.AST) -> str:
    """The setting as it should stand above the maker: in its loop, if it has one."""
    for each in script.above(node):
        if isinstance(each, ast.For) and len(ast.unparse(each).splitlines()) <= 3:
            return ast.unparse(each)
        if isinstance(each, ast.stmt) and not isinstance(each, ast.Expr):
            break
    return ast.unparse(node)


def _short(node: ast.AST) -> str:
    """The statement or call in one line; long ones lose their arguments."""
    text = ast.unparse(node)
    if isinstance(node, ast.Call) and (len(text) > 70 or "\n" in text):
        return f"{ast.unparse(node.func)}(...)"
    return text.partition("\n")[0]
