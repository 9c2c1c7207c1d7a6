"""Session code of TensorFlow 1 that TensorFlow 2 and Keras 3 do not have any more.

A bare ``tf.compat.v1.Session(config=…)`` is no finding: it makes the process's devices, and so its
GPU options act in eager mode too (run on the simulated card with TF 2.21).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuconf.doctor.source.environment import settings_at
from gpuconf.doctor.source.flow import Function
from gpuconf.doctor.source.script import Script, ScriptProblem, imported_modules
from gpuconf.doctor.source.unedited import in_one_line

_V1_NAMES = {
    f"tensorflow.{name}" for name in ("Session", "InteractiveSession", "ConfigProto", "GPUOptions")
}
_KERAS_SESSION = {"keras.backend.set_session", "keras.backend.get_session"}
_V1_KERAS_SESSION = {
    f"tensorflow.compat.v1.keras.backend.{name}" for name in ("set_session", "get_session")
}
_OLD_MODULE = "keras.backend.tensorflow_backend"
_VERSION = re.compile(r"version|hasattr|(?:tf|tensorflow|keras)_?[12]|\bv[12]\b", re.IGNORECASE)
_SAFE_HANDLERS = {"AttributeError", "ImportError", "ModuleNotFoundError", "Exception"}
_FRACTION = "per_process_gpu_memory_fraction"


def version_1_sessions(script: Script) -> Iterator[ScriptProblem]:
    """``source.v1_session``: a session that nothing can make, or nobody takes."""
    yield from _old_module(script)
    if any(name == "gpuconf.install_session" for _, name in script.calls()):
        return
    calls = [(call, name) for call, name in script.calls() if not _is_guarded(script, call)]
    gone = [call for call, name in calls if name in _V1_NAMES]
    names = list(dict.fromkeys(ast.unparse(call.func) for call in gone))
    for call in gone:
        what = f"TensorFlow 2 has {_none_of(names)}"
        yield _problem(script, call, what, "AttributeError at this line")
    for call, name in calls:
        own = ast.unparse(call.func)
        if name in _KERAS_SESSION:
            why = "AttributeError at this line; Keras takes TensorFlow's devices as they are"
            yield _problem(script, call, f"Keras 3 has no {own}, nor has tf.keras", why)
        elif name in _V1_KERAS_SESSION and not _wants_old_keras(script):
            why = (
                "only Keras 2 has it: TensorFlow up to 2.15, or tf_keras and TF_USE_LEGACY_KERAS=1"
            )
            yield _problem(script, call, f"Keras 3 has no {own}", why)._replace(status="warn")


def _old_module(script: Script) -> Iterator[ScriptProblem]:
    """Imports of Keras's former TensorFlow backend; without one, what is called by its name."""
    what = "Keras has had no `backend.tensorflow_backend` since 2.4"
    imports = [node for node in ast.walk(script.tree) if _OLD_MODULE in imported_modules(node)]
    for node in imports:
        if not _is_guarded(script, node):
            yield _problem(script, node, what, "ModuleNotFoundError at this line")
    for call, name in script.calls():
        if imports or not name.startswith(f"{_OLD_MODULE}.") or _is_guarded(script, call):
            continue
        problem = _problem(script, call, what, "AttributeError at this line")
        if name.endswith("._get_available_gpus"):
            listed = f'{script.tf}.config.list_physical_devices("GPU")'
            fix = f"import tensorflow as {script.tf}\ngpus = {listed}"
            problem = problem._replace(what=f"{what}, nor its list of GPUs", fix=fix)
        yield problem


def _none_of(names: list[str]) -> str:
    """``no a``, ``neither a nor b``, ``none of a, b, c``."""
    if len(names) == 2:
        return f"neither {names[0]} nor {names[1]}"
    return f"no {names[0]}" if len(names) == 1 else f"none of {', '.join(names)}"


def _problem(script: Script, node: ast.AST, what: str, why: str) -> ScriptProblem:
    start = in_one_line(script.source.filename)
    fix = f"{_rewrite(script)}\n# or unedited, with the TensorFlow 1 it was written for: {start}"
    return ScriptProblem("source.v1_session", "fail", node, what, (why,), fix)


def _rewrite(script: Script) -> str:
    """What the session was for, said the way that works: a fraction of the card, or growth."""
    fraction = _fraction(script)
    if fraction is not None:
        return (
            "import gpuconf  # above tensorflow and keras; no session is needed\n"
            f'gpuconf.configure(memory={{"{_FRACTION}": {fraction}}})'
        )
    return (
        "import gpuconf.auto  # above tensorflow and keras: a limit, and growth up to it\n"
        "# or without gpuconf, before the first tensor or model:\n"
        "import tensorflow as tf\n"
        'for gpu in tf.config.list_physical_devices("GPU"):\n'
        "    tf.config.experimental.set_memory_growth(gpu, True)"
    )


def _fraction(script: Script) -> float | None:
    for node in ast.walk(script.tree):
        value: object = None
        if isinstance(node, ast.keyword) and node.arg == _FRACTION:
            value = script.constant(node.value)
        elif isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Attribute) and target.attr == _FRACTION:
                value = script.constant(node.value)
        if isinstance(value, float) and 0 < value < 1:
            return value
    return None


def _is_guarded(script: Script, node: ast.AST) -> bool:
    """Whether the script asks for the version first, or has another way ready."""
    child = node
    for each in script.above(node):
        if isinstance(each, ast.If) and _VERSION.search(ast.unparse(each.test)):
            return True
        if isinstance(each, ast.Try) and child in each.body and any(map(_is_safe, each.handlers)):
            return True
        if isinstance(each, Function) and _VERSION.search(each.name):
            return True
        child = each
    return False


def _is_safe(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(each, ast.Name) and each.id in _SAFE_HANDLERS for each in types)


def _wants_old_keras(script: Script) -> bool:
    """Whether the script itself asks for Keras 2."""
    for node in ast.walk(script.tree):
        if any(module.partition(".")[0] == "tf_keras" for module in imported_modules(node)):
            return True
        if any(each.variable == "TF_USE_LEGACY_KERAS" for each in settings_at(script, node)):
            return True
    return False
