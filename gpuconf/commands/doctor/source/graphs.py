"""Scripts written for TensorFlow 1's graphs, and the lines that make them run on TensorFlow 2.

tests/commands/doctor/source/test_source_v1.py checks the names against the installed TensorFlow,
and runs a script with the proposed lines.
"""

from __future__ import annotations

import ast

from gpuconf.commands.doctor.source.script import Script

# Names in tf.compat.v1 that tf lacks; a trailing dot means everything below.
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
# Names that even tf.compat.v1 has only with Keras 2.
KERAS_2_NAMES = ("layers.", "nn.rnn_cell.")
GETS_SESSION = "keras.backend.get_session"
_SESSIONS = ("tensorflow.Session", "tensorflow.InteractiveSession")
KERAS_2 = "\n".join(
    (
        "import os",
        'os.environ["TF_USE_LEGACY_KERAS"] = "1"  # Keras 2, for sessions and tf.layers:',
        "# pip install tf_keras, in the minor version that TensorFlow has",
    )
)


def is_graph_name(name: str) -> bool:
    """Whether TensorFlow 1 has ``name`` but TensorFlow 2 does not; excludes sessions."""
    return name.startswith("tensorflow.") and _is_among(
        name.removeprefix("tensorflow."), (*GRAPH_NAMES, *KERAS_2_NAMES)
    )


def needs_keras_2(name: str) -> bool:
    """Whether tf.compat.v1 has ``name`` only with Keras 2."""
    prefix = "tensorflow.compat.v1."
    return name.startswith(prefix) and _is_among(name.removeprefix(prefix), KERAS_2_NAMES)


def _is_among(name: str, known: tuple[str, ...]) -> bool:
    return any(name == each or (each.endswith(".") and name.startswith(each)) for each in known)


def is_graph_script(script: Script) -> bool:
    """Whether it builds and runs graphs itself, rather than just passing a session to Keras."""
    made = {_variable_of(script, call) for call, name in script.calls() if name in _SESSIONS}
    return any(
        is_graph_name(name) or name == GETS_SESSION or _is_run(call, made)
        for call, name in script.calls()
    )


def _is_run(call: ast.Call, sessions: set[str | None]) -> bool:
    function = call.func
    is_run = isinstance(function, ast.Attribute) and function.attr == "run"
    value = function.value if isinstance(function, ast.Attribute) else None
    return is_run and isinstance(value, ast.Name) and value.id in sessions


def _variable_of(script: Script, call: ast.Call) -> str | None:
    """The variable that the call's result is assigned to."""
    for each in script.above(call):
        target = each.optional_vars if isinstance(each, ast.withitem) else None
        if isinstance(each, ast.Assign):
            target = each.targets[0]
        if isinstance(target, ast.Name):
            return target.id
    return None


def lines_for_graphs(script: Script) -> str:
    """The script's TensorFlow imports, rewritten to run on TensorFlow 2."""
    called = [name for _, name in script.calls()]
    of_layers = any(_is_among(name.removeprefix("tensorflow."), KERAS_2_NAMES) for name in called)
    keras = [KERAS_2] if of_layers or GETS_SESSION in called else []
    backend = [f"K = {script.tf}.keras.backend  # and {script.tf}.keras in place of keras"]
    own = "import tensorflow" if script.tf == "tensorflow" else f"import tensorflow as {script.tf}"
    whole = f"import tensorflow.compat.v1 as {script.tf}  # in place of `{own}`"
    parts = [
        f"from tensorflow.compat.v1 import {', '.join(map(ast.unparse, node.names))}"
        for node in ast.walk(script.tree)
        if isinstance(node, ast.ImportFrom) and node.module == "tensorflow"
    ]
    lines = [*keras, whole, *parts, f"{script.tf}.disable_v2_behavior()"]
    return "\n".join([*lines, *(backend if GETS_SESSION in called else [])])
