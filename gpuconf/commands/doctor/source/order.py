"""Required order: `import gpuconf.auto` first, and settings before the devices they affect."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source import device_init_calls
from gpuconf.commands.doctor.source.flow import CodeEvent, CodePath
from gpuconf.commands.doctor.source.run_unmodified import in_one_line
from gpuconf.commands.doctor.source.script import (
    SETS_GROWTH,
    SETS_LIMIT,
    SETS_VISIBLE,
    Script,
    ScriptProblem,
    first_in,
    imported_modules,
    imports_tensorflow,
)

_SETTINGS = {
    SETS_GROWTH: "set_memory_growth",
    SETS_LIMIT: "set_logical_device_configuration",
    SETS_VISIBLE: "set_visible_devices",
}
_MAKERS = {
    "TensorFlow": device_init_calls.TENSORFLOW,
    "PyTorch": device_init_calls.TORCH_STARTS,
    "JAX": device_init_calls.JAX,
}
# The behavior of gpuconf/backends/torch if PyTorch has already started CUDA.
_CAPPED_LATE = (
    "PyTorch is limited only from here on; if it already uses other GPUs or more than the "
    "limit, TooLateError is raised"
)
_OTHER_FRAMEWORKS = ("jax", "torch", "flax")


def missing_auto(script: Script) -> Iterator[ScriptProblem]:
    """``source.auto_missing``: a script uses a framework, but no profile applies to it."""
    imports = [
        node for node in ast.walk(script.tree) if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    if any(script.starts_gpuconf(node) for node in ast.walk(script.tree)):
        return
    for node in sorted(imports, key=lambda each: each.lineno):
        roots = {module.partition(".")[0] for module in imported_modules(node)}
        if imports_tensorflow(node) or roots & set(_OTHER_FRAMEWORKS):
            yield ScriptProblem(
                "source.auto_missing",
                "ok",
                node,
                "no profile applies to the script, since it does not import gpuconf.auto (this is "
                "not an error)",
                (
                    f"to have one: `import gpuconf.auto` {script.first_place}, before keras and "
                    "every framework; or call gpuconf.configure() there",
                    f"or without editing it: {in_one_line(script.source.filename)}",
                ),
                None,
            )
            return


def late_auto(script: Script) -> Iterator[ScriptProblem]:
    """``source.auto_late``: our line comes after TensorFlow's import, or a framework's devices."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            if not script.starts_gpuconf(node) or script.uses_gpuconf_before(line, index):
                continue
            if (late := _late_for(script, line, index)) is not None:
                framework, made = late
                where = f"{script.place(made.node)} ({_short(made.node)})"
                what = f"{framework}'s devices exist before it"
                yield _late_auto(script, node, "fail", what, where)
            elif (step := _imported_before(line, index)) is not None:
                where = f"{script.place(step.node)} ({_short(step.node)})"
                what = "TensorFlow is imported before it"
                yield _late_auto(script, node, "warn", what, where)


def _late_auto(script: Script, node: ast.AST, status: str, what: str, where: str) -> ScriptProblem:
    our_line = ast.unparse(node)
    is_fail = status == "fail"
    why = "variables read at import keep their old values"
    if is_fail:
        why = _CAPPED_LATE if what.startswith("PyTorch") else "so it raises TooLateError"
    return ScriptProblem(
        "source.auto_late",
        "fail" if is_fail else "warn",
        node,
        f"`{our_line}` comes too late: {what}",
        (f"{where}; {why}",),
        f"{our_line}  # {script.first_place}, before keras and every framework",
    )


def _late_for(script: Script, line: CodePath, index: int) -> tuple[str, CodeEvent] | None:
    """The framework that has already created its devices, and where."""
    for framework, names in _MAKERS.items():
        if (made := _made_before(script, line, index, names)) is not None:
            return framework, made
    return None


def _imported_before(line: CodePath, index: int) -> CodeEvent | None:
    found = [step for step in line.steps[:index] if imports_tensorflow(step.node)]
    return first_in(line, index, found)


def _made_before(
    script: Script, line: CodePath, index: int, names: frozenset[str] = device_init_calls.TENSORFLOW
) -> CodeEvent | None:
    found = [
        step
        for step in line.steps[:index]
        if device_init_calls.initializes_devices(script, step.node, names)
    ]
    return first_in(line, index, found)


def early_devices(script: Script) -> Iterator[ScriptProblem]:
    """``source.devices_early``: devices are created before the settings that are meant for them."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            name = script.names.of(node.func) if isinstance(node, ast.Call) else ""
            if name not in _SETTINGS:
                continue
            if name != SETS_VISIBLE and script.uses_gpuconf_before(line, index):
                continue  # gpuconf's guards handle the call, and the plan applies
            made = _made_before(script, line, index)
            if made is not None:
                yield _too_late(script, node, made.node, _SETTINGS[name])


def _too_late(script: Script, node: ast.AST, maker: ast.AST, setting: str) -> ScriptProblem:
    made_by = script.names.of(maker.func) if isinstance(maker, ast.Call) else ""
    is_silent = made_by in device_init_calls.TENSORFLOW_SILENT
    outcome = "is ignored silently" if is_silent else "raises RuntimeError"
    where = f"{script.place(maker)} ({_short(maker)})"
    return ScriptProblem(
        "source.devices_early",
        "fail",
        node,
        f"{setting} {outcome}: the devices exist already",
        (f"made at {where}",),
        f"# move it, with what it needs, above {where}",
    )


def _short(node: ast.AST) -> str:
    """The statement or call in one line; a long one without its arguments."""
    text = ast.unparse(node)
    if isinstance(node, ast.Call) and (len(text) > 70 or "\n" in text):
        return f"{ast.unparse(node.func)}(...)"
    return text.partition("\n")[0]
