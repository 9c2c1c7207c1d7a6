"""TensorFlow 1 code that TensorFlow 2 and Keras 3 no longer have.

A bare ``tf.compat.v1.Session(config=…)`` is not a finding: it creates the process's devices, so its
GPU options also apply in eager mode (run on the simulated GPU with TF 2.21).
tests/commands/doctor/source/test_source_v1.py checks the names against the installed TensorFlow,
and runs a script with the proposed lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.run_unmodified import in_one_line
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, imported_modules
from gpuconf.commands.doctor.source.version_checks import checks_version_first

# Names that tf lacks; a trailing dot means everything below.  tf.compat.v1 has these,
SESSION_NAMES = ("ConfigProto", "GPUOptions", "InteractiveSession", "Session")
GRAPH_NAMES = (
    *("app.", "assign", "flags.", "get_default_graph", "get_variable", "gfile.", "logging."),
    *("global_variables_initializer", "initialize_all_variables", "local_variables_initializer"),
    *("losses.softmax_cross_entropy", "losses.sparse_softmax_cross_entropy", "matrix_inverse"),
    *("nn.dynamic_rnn", "nn.static_rnn", "placeholder", "placeholder_with_default"),
    *("random_normal", "random_uniform", "reset_default_graph", "set_random_seed", "to_float"),
    *("summary.FileWriter", "summary.merge_all", "trainable_variables", "truncated_normal"),
    *("train.AdagradOptimizer", "train.AdamOptimizer", "train.GradientDescentOptimizer"),
    *("train.MomentumOptimizer", "train.MonitoredTrainingSession", "train.RMSPropOptimizer"),
    *("train.Saver", "train.SingularMonitoredSession", "train.Supervisor", "variable_scope"),
)
# these only with Keras 2,
KERAS_2_NAMES = ("layers.", "nn.rnn_cell.")
# and these never.
GONE_NAMES = ("contrib.", "examples.")
_CONTRIB_OF_V1 = ("compat.v1.contrib.",)
_OF_TENSORFLOW = (*SESSION_NAMES, *GRAPH_NAMES, *KERAS_2_NAMES, *GONE_NAMES)
_SESSIONS_OF_KERAS = ("keras.backend.get_session", "keras.backend.set_session")
_OF_KERAS = (*_SESSIONS_OF_KERAS, "keras.backend.tensorflow_backend.")
# What tf.compat.v1 has only with Keras 2.
_WITH_KERAS_2 = tuple(f"tensorflow.compat.v1.{name}" for name in
                      (*_SESSIONS_OF_KERAS, *KERAS_2_NAMES))  # fmt: skip
# TensorFlow's own Keras before 2.6, still in the wheel of 2.21; tf.keras is another package.
_PRIVATE_KERAS = tuple(f"tensorflow.python.{name}" for name in _SESSIONS_OF_KERAS)
_ASKS_FOR_KERAS_2 = (
    'os.environ["TF_USE_LEGACY_KERAS"] = "1"  # above tensorflow, for what only Keras 2 has:\n'
    "# pip install tf_keras, in the same minor version as TensorFlow"
)
_AUTO = "import gpuconf.auto  # above tensorflow and keras: a limit, and growth up to it"
_MOST_NAMES = 5


def version_1(script: Script) -> Iterator[ScriptProblem]:
    """``source.v1``: names that raise an error, or sessions that nothing uses."""
    if any(name == "gpuconf.install_session" for _, name in script.calls()):
        return
    used = [each for each in _uses(script) if not checks_version_first(script, each[0])]
    private = [node for node, _ in used if script.names.plain(node) in _PRIVATE_KERAS]
    gone = [(node, name) for node, name in used if _is_gone(name) and node not in private]
    names = list(dict.fromkeys(_written(name) for _, name in gone))
    for node, _ in gone:
        what = f"written for TensorFlow 1: TensorFlow 2 and Keras 3 have no {_listed(names)}"
        error = "AttributeError" if isinstance(node, ast.expr) else "ImportError"
        fix = _fix(script, [name.replace(".tensorflow_backend", "") for _, name in gone])
        yield ScriptProblem("source.v1", "fail", node, what, (f"{error} at this line",), fix)
    for node, name in used:
        if node in private:
            what = "no model accepts the session of tensorflow.python.keras"
            why = "it is a copy of Keras that TensorFlow has not used since 2.6"
            yield ScriptProblem("source.v1", "warn", node, what, (why,), _AUTO)
        elif _is_among(name, _WITH_KERAS_2) and not _wants_keras_2(script):
            what = f"only Keras 2 has {_written(name)}"
            why = "AttributeError at this line, since TensorFlow 2.16"
            fix = f"import os\n{_ASKS_FOR_KERAS_2}"
            yield ScriptProblem("source.v1", "warn", node, what, (why,), fix)


def _fix(script: Script, names: list[str]) -> str:
    """Lines that make the script run on TensorFlow 2, or the command that leaves it unchanged."""
    inner = [name.removeprefix("tensorflow.") for name in names if name.startswith("tensorflow.")]
    keras_sessions = set(_SESSIONS_OF_KERAS) & set(names)
    lines = []
    if "keras.backend.set_session" in names and set(inner) <= set(SESSION_NAMES):
        lines.append(f"{_AUTO}; no session is needed")
    elif inner or keras_sessions:
        lines.append(_AUTO)
        if keras_sessions or any(_is_among(name, KERAS_2_NAMES) for name in inner):
            lines += ["import os", _ASKS_FOR_KERAS_2]
        own = script.tf if script.tf == "tensorflow" else f"tensorflow as {script.tf}"
        lines += [
            f"import tensorflow.compat.v1 as {script.tf}  # in place of `import {own}`",
            f"{script.tf}.disable_v2_behavior()",
        ]
    else:
        lines.append("from tensorflow.keras import backend as K  # in place of tensorflow_backend")
    if any(_is_among(name.removeprefix("compat.v1."), GONE_NAMES) for name in inner):
        lines.append(
            "# from tf.contrib, slim and layers are in the package tf_slim, cells and initializers "
            "in tf.compat.v1"
        )
    start = in_one_line(script.source.filename)
    return "\n".join([*lines, f"# or unedited, with the TensorFlow 1 it was written for: {start}"])


def _uses(script: Script) -> Iterator[tuple[ast.AST, str]]:
    """The full names that the script uses; names from a failing import are listed only there."""
    nodes = list(ast.walk(script.tree))
    imports = {node: list(filter(_is_gone, imported_modules(node))) for node in nodes}
    failing = tuple(f"{name}." for names in imports.values() for name in names)
    yield from ((node, max(names, key=len)) for node, names in imports.items() if names)
    inner = {node.value for node in nodes if isinstance(node, ast.Attribute)}
    for node in nodes:
        if isinstance(node, ast.Attribute | ast.Name) and node not in inner:
            name = script.names.of(node)
            if name and not f"{name}.".startswith(failing):
                yield node, name


def _is_gone(name: str) -> bool:
    inner = name.removeprefix("tensorflow.")
    if name == inner:
        return _is_among(name, _OF_KERAS)
    return _is_among(inner, _OF_TENSORFLOW) or _is_among(inner, _CONTRIB_OF_V1)


def _is_among(name: str, known: tuple[str, ...]) -> bool:
    return any(
        f"{name}.".startswith(each) if each.endswith(".") else name == each for each in known
    )


def _written(name: str) -> str:
    """The name as scripts write it."""
    return f"tf.{name.removeprefix('tensorflow.')}" if name.startswith("tensorflow.") else name


def _listed(names: list[str]) -> str:
    if len(names) > _MOST_NAMES:
        return f"{', '.join(names[:_MOST_NAMES])} and {len(names) - _MOST_NAMES} more"
    *others, last = names
    return f"{', '.join(others)} or {last}" if others else last


def _wants_keras_2(script: Script) -> bool:
    """Whether the script itself requests Keras 2."""
    for node in ast.walk(script.tree):
        if any(module.partition(".")[0] == "tf_keras" for module in imported_modules(node)):
            return True
        if any(each.variable == "TF_USE_LEGACY_KERAS" for each in settings_at(script, node)):
            return True
    return False
