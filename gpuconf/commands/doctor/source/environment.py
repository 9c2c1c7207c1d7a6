"""Environment variables that a script sets too late."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.commands.doctor.source import device_init_calls
from gpuconf.commands.doctor.source.flow import CodeEvent, CodePath
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, first_in, imported_modules

# Read once, when this package is imported.  Measured on TF 2.21, Keras 3.15 and jax 0.10 with each
# variable set one line too late; tests/commands/doctor/source/test_source_facts.py repeats this.
_READ_AT_IMPORT = {
    "TF_CPP_MIN_LOG_LEVEL": ("tensorflow", "keras", "tf_keras"),
    "TF_ENABLE_ONEDNN_OPTS": ("tensorflow", "keras", "tf_keras"),
    "TF_USE_LEGACY_KERAS": ("tensorflow", "keras", "tf_keras"),
    "KERAS_BACKEND": ("keras", "tensorflow.keras"),
    "KERAS_HOME": ("keras", "tensorflow.keras"),
    "KERAS_TORCH_DEVICE": ("keras",),
    "JAX_PLATFORMS": ("jax",),
}
# Read when the first device is created; those with "listing", when GPUs are first listed.
_READ_AT_FIRST_USE: dict[str, tuple[frozenset[str], ...]] = {
    "CUDA_VISIBLE_DEVICES": (
        device_init_calls.TENSORFLOW_LISTS,
        device_init_calls.TENSORFLOW,
        device_init_calls.JAX,
        device_init_calls.TORCH,
    ),
    "CUDA_DEVICE_ORDER": (
        device_init_calls.TENSORFLOW_LISTS,
        device_init_calls.TENSORFLOW,
        device_init_calls.JAX,
        device_init_calls.TORCH,
    ),
    "TF_FORCE_GPU_ALLOW_GROWTH": (device_init_calls.TENSORFLOW,),
    "TF_GPU_ALLOCATOR": (device_init_calls.TENSORFLOW,),
    "TF_DEVICE_MIN_SYS_MEMORY_IN_MB": (device_init_calls.TENSORFLOW,),
    "XLA_CLIENT_MEM_FRACTION": (device_init_calls.JAX,),
    "XLA_PYTHON_CLIENT_MEM_FRACTION": (device_init_calls.JAX,),
    "XLA_PYTHON_CLIENT_PREALLOCATE": (device_init_calls.JAX,),
    "XLA_PYTHON_CLIENT_ALLOCATOR": (device_init_calls.JAX,),
    "PYTORCH_CUDA_ALLOC_CONF": (device_init_calls.TORCH_STARTS,),
    "PYTORCH_ALLOC_CONF": (device_init_calls.TORCH_STARTS,),
}
_FORMER = {"TF_CPP_MIN_VLOG_LEVEL": "TF_CPP_MIN_LOG_LEVEL"}


class ScriptVariable(NamedTuple):
    """A variable that the script sets: its name, and the expression for its value."""

    variable: str
    value: ast.expr | None


def settings_at(script: Script, node: ast.AST) -> list[ScriptVariable]:
    """The variables that a statement or call sets."""
    if isinstance(node, ast.Assign):
        targets = [each for each in node.targets if isinstance(each, ast.Subscript)]
        found = [(each.slice, node.value) for each in targets if _is_environ(script, each.value)]
    elif isinstance(node, ast.AugAssign) and _is_environ(script, node.target):
        found = _entries(node.value)
    elif isinstance(node, ast.Call):
        found = _set_by_call(script, node)
    else:
        found = []
    named = ((script.constant(name), value) for name, value in found)
    return [ScriptVariable(name, value) for name, value in named if isinstance(name, str)]


def _set_by_call(script: Script, call: ast.Call) -> list[tuple[ast.expr, ast.expr]]:
    name, function = script.names.of(call.func), call.func
    of_environ = isinstance(function, ast.Attribute) and _is_environ(script, function.value)
    pair = len(call.args) == 2
    if pair and (name == "os.putenv" or (of_environ and name.endswith(".setdefault"))):
        return [(call.args[0], call.args[1])]
    if of_environ and name.endswith(".update"):
        keywords = [(ast.Constant(each.arg), each.value) for each in call.keywords if each.arg]
        return [*keywords, *(pair for each in call.args for pair in _entries(each))]
    return []


def _entries(node: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """The keys and values of ``{…}`` and ``dict(…)``."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return [(key, value) for key, value in pairs if key is not None]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return [(ast.Constant(each.arg), each.value) for each in node.keywords if each.arg]
    return []


def _is_environ(script: Script, node: ast.AST) -> bool:
    return script.names.of(node) == "os.environ"


def late_variables(script: Script) -> Iterator[ScriptProblem]:
    """``source.env_late``: a variable set after it has been read."""
    for line in script.lines:
        for index in range(line.own_from, len(line.steps)):
            node = line.steps[index].node
            for setting in settings_at(script, node):
                read = _read_before(script, line, index, setting)
                if read is not None and not _is_repeated(script, line, setting, read[0]):
                    yield _late(script, node, setting, *read)


def _read_before(
    script: Script, line: CodePath, index: int, setting: ScriptVariable
) -> tuple[CodeEvent, str] | None:
    """The step that has already read the variable, and a description of how."""
    variable = _FORMER.get(setting.variable, setting.variable)
    packages = _READ_AT_IMPORT.get(variable, ())
    if variable in ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"):
        value = script.constant(setting.value)
        packages = ("torch",) if isinstance(value, str) and "backend:" in value else ()
    steps = line.steps[:index]
    imports = [step for step in steps if _package(step.node, packages)]
    if (step := first_in(line, index, imports)) is not None:
        package = packages[0] if packages[0] == "torch" else _package(step.node, packages)
        return step, f"{package} reads it when it is imported"
    for names in _READ_AT_FIRST_USE.get(variable, ()):
        made = [
            step
            for step in steps
            if device_init_calls.initializes_devices(script, step.node, names)
        ]
        if (step := first_in(line, index, made)) is not None:
            return step, "it is read once, before this line"
    return None


def _is_repeated(script: Script, line: CodePath, setting: ScriptVariable, read: CodeEvent) -> bool:
    """Whether the same value was also set in time."""
    earlier = line.steps[: line.steps.index(read)]
    in_time = [each for step in earlier for each in settings_at(script, step.node)]
    return any(_is_same(each, setting) for each in in_time)


def _is_same(one: ScriptVariable, other: ScriptVariable) -> bool:
    if one.variable != other.variable or one.value is None or other.value is None:
        return False
    return ast.dump(one.value) == ast.dump(other.value)


def _package(node: ast.AST, packages: tuple[str, ...]) -> str:
    """The package among ``packages`` that this statement imports."""
    for module in imported_modules(node):
        for package in packages:
            if module == package or module.startswith(f"{package}."):
                return package
    return ""


def _late(
    script: Script, node: ast.AST, setting: ScriptVariable, step: CodeEvent, how: str
) -> ScriptProblem:
    text = ast.unparse(setting.value) if setting.value is not None else '"…"'
    earlier = ast.unparse(step.node).partition("\n")[0]
    return ScriptProblem(
        "source.env_late",
        "warn",
        node,
        f"{setting.variable} is set too late to have an effect",
        (f"{how}: {script.place(step.node)} ({earlier})",),
        f'import os\nos.environ["{setting.variable}"] = {text}  # before this:\n{earlier}',
    )
