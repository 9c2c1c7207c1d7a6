"""TensorFlow 1 code that no longer works with TensorFlow 2 and Keras 3.

A bare ``tf.compat.v1.Session(config=…)`` is not a finding: it creates the process's devices, so its
GPU options also apply in eager mode (run on the simulated card with TF 2.21).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.graphs import (
    KERAS_2,
    is_graph_name,
    is_graph_script,
    lines_for_graphs,
    needs_keras_2,
)
from gpuconf.commands.doctor.source.guarded import is_guarded
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, imported_modules
from gpuconf.commands.doctor.source.unedited import in_one_line

_V1_NAMES = {
    f"tensorflow.{name}" for name in ("Session", "InteractiveSession", "ConfigProto", "GPUOptions")
}
_KERAS_SESSION = {"keras.backend.set_session", "keras.backend.get_session"}
_V1_KERAS_SESSION = {
    f"tensorflow.compat.v1.keras.backend.{name}" for name in ("set_session", "get_session")
}
# TensorFlow's own Keras before 2.6, still in the wheel of 2.21; tf.keras is another package.
_PRIVATE_KERAS = {
    f"tensorflow.python.keras.backend.{name}" for name in ("set_session", "get_session")
}
_OLD_MODULE = "keras.backend.tensorflow_backend"
_MOST_NAMES = 5
_FRACTION = "per_process_gpu_memory_fraction"


def version_1_sessions(script: Script) -> Iterator[ScriptProblem]:
    """``source.v1_session``: a session that cannot be created, or that nothing uses."""
    yield from _old_module(script)
    if any(name == "gpuconf.install_session" for _, name in script.calls()):
        return
    calls = [(call, name) for call, name in script.calls() if not is_guarded(script, call)]
    gone = [call for call, name in calls if name in _V1_NAMES or is_graph_name(name)]
    names = list(dict.fromkeys(ast.unparse(call.func) for call in gone))
    for call in gone:
        what = f"TensorFlow 2 has {_none_of(names)}"
        yield _problem(script, call, what, "AttributeError at this line")
    for call, name in calls:
        own = ast.unparse(call.func)
        if script.names.plain(call.func) in _PRIVATE_KERAS:
            what = f"no model of tf.keras or keras takes the session of {own}"
            why = "tensorflow.python.keras is a copy that TensorFlow has not used since 2.6"
            yield _problem(script, call, what, why)._replace(status="warn")
        elif name in _KERAS_SESSION:
            why = "AttributeError at this line; Keras takes TensorFlow's devices as they are"
            yield _problem(script, call, f"Keras 3 has no {own}, nor has tf.keras", why)
        elif name in _V1_KERAS_SESSION and not _wants_old_keras(script):
            why = (
                "only Keras 2 has it: TensorFlow up to 2.15, or tf_keras and TF_USE_LEGACY_KERAS=1"
            )
            yield _problem(script, call, f"Keras 3 has no {own}", why)._replace(status="warn")
        elif needs_keras_2(name) and not _wants_old_keras(script):
            what = "TensorFlow has tf.layers and tf.nn.rnn_cell only with Keras 2"
            why = "AttributeError at this line, since TensorFlow 2.16"
            yield _problem(script, call, what, why)._replace(status="warn", fix=KERAS_2)


def _old_module(script: Script) -> Iterator[ScriptProblem]:
    """Imports of Keras's former TensorFlow backend; without an import, calls by its name."""
    what = "Keras has had no `backend.tensorflow_backend` since 2.4"
    imports = [node for node in ast.walk(script.tree) if _OLD_MODULE in imported_modules(node)]
    called = [name for _, name in script.calls() if name.startswith(f"{_OLD_MODULE}.")]
    for node in imports:
        if not is_guarded(script, node):
            problem = _problem(script, node, what, "ModuleNotFoundError at this line")
            if called and not any("session" in name or "_gpus" in name for name in called):
                alias = script.names.alias(_OLD_MODULE, "K")  # the name of Keras's functions
                fix = f"from tensorflow.keras import backend as {alias}"
                problem = problem._replace(fix=fix)
            yield problem
    for call, name in script.calls():
        if imports or not name.startswith(f"{_OLD_MODULE}.") or is_guarded(script, call):
            continue
        problem = _problem(script, call, what, "AttributeError at this line")
        if name.endswith("._get_available_gpus"):
            listed = f'{script.tf}.config.list_physical_devices("GPU")'
            fix = f"import tensorflow as {script.tf}\ngpus = {listed}"
            problem = problem._replace(what=f"{what}, nor its list of GPUs", fix=fix)
        yield problem


def _none_of(names: list[str]) -> str:
    """``no a``, ``neither a nor b``, ``none of a, b, c``; long lists are cut."""
    if len(names) > _MOST_NAMES:
        kept = _MOST_NAMES - 1
        return f"none of {', '.join(names[:kept])} and {len(names) - kept} more"
    if len(names) == 2:
        return f"neither {names[0]} nor {names[1]}"
    return f"no {names[0]}" if len(names) == 1 else f"none of {', '.join(names)}"


def _problem(script: Script, node: ast.AST, what: str, why: str) -> ScriptProblem:
    start = in_one_line(script.source.filename)
    fix = f"{_rewrite(script)}\n# or unedited, with the TensorFlow 1 it was written for: {start}"
    return ScriptProblem("source.v1_session", "fail", node, what, (why,), fix)


def _rewrite(script: Script) -> str:
    """The session's purpose in a form that works: a fraction of the card, or growth.

    A script that runs graphs keeps its sessions.
    """
    fraction = _fraction(script)
    is_graph = is_graph_script(script)
    if fraction is not None:
        needed = "" if is_graph else "; no session is needed"
        first = (
            f"import gpuconf  # above tensorflow and keras{needed}\n"
            f'gpuconf.configure(memory={{"{_FRACTION}": {fraction}}})'
        )
    else:
        first = "import gpuconf.auto  # above tensorflow and keras: a limit, and growth up to it"
    if is_graph:
        return f"{first}\n{lines_for_graphs(script)}"
    if fraction is not None:
        return first
    return (
        f"{first}\n"
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


def _wants_old_keras(script: Script) -> bool:
    """Whether the script itself requests Keras 2."""
    for node in ast.walk(script.tree):
        if any(module.partition(".")[0] == "tf_keras" for module in imported_modules(node)):
            return True
        if any(each.variable == "TF_USE_LEGACY_KERAS" for each in settings_at(script, node)):
            return True
    return False
