"""tf.contrib and tensorflow.examples, which TensorFlow 2 lacks, and their replacements.

tests/commands/doctor/source/test_source_v1.py checks the replacements against the installed
TensorFlow; tf_slim 1.1.0 builds its layers on TensorFlow 2.21.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.guarded import is_guarded
from gpuconf.commands.doctor.source.script import Script, ScriptProblem, imported_modules
from gpuconf.commands.doctor.source.unedited import in_one_line

_MODULES = ("contrib", "examples")
_DATA = "examples.tutorials.mnist"
_CELLS = ("BasicLSTMCell", "BasicRNNCell", "DropoutWrapper", "GRUCell", "LSTMCell", "MultiRNNCell",
          "ResidualWrapper", "RNNCell")  # fmt: skip
# Names below tf.contrib -> names in tf.compat.v1.
REPLACEMENTS = {
    **{f"contrib.rnn.{cell}": f"nn.rnn_cell.{cell}" for cell in _CELLS},
    "contrib.rnn.static_rnn": "nn.static_rnn",
    "contrib.rnn.static_bidirectional_rnn": "nn.static_bidirectional_rnn",
    "contrib.layers.xavier_initializer": "glorot_uniform_initializer",
    "contrib.layers.variance_scaling_initializer": "variance_scaling_initializer",
    "contrib.framework.get_or_create_global_step": "train.get_or_create_global_step",
    "contrib.data.Dataset": "data.Dataset",
    _DATA: "keras.datasets.mnist.load_data",
}
# Names in the package tf_slim.
_SLIM = {"contrib.slim": "slim", "contrib.layers": "slim.layers"}
_SLIM_ITSELF = ("apply_regularization", "group_norm", "instance_norm", "l1_regularizer",
                "l2_regularizer", "optimize_loss", "sum_regularizer")  # fmt: skip
_NOT_IN_SLIM = ("embed_sequence", "feature_column", "real_valued_column", "sparse_column")
_MOST_NAMES = 4


def gone_modules(script: Script) -> Iterator[ScriptProblem]:
    """``source.v1_gone``: names that raise an error on every TensorFlow 2."""
    used = [each for each in _uses(script) if not is_guarded(script, each[0])]
    names = dict.fromkeys(name for _, name in used)
    moved = {name: new for name in names if (new := _replacement(name)) is not None}
    lost = [name for name in names if name not in moved]
    start = in_one_line(script.source.filename)
    with_old = f"with the TensorFlow 1 it was written for: {start}"
    for node, name in used:
        if name in moved:
            what = f"in TensorFlow 2 these are elsewhere: {_listed(list(moved))}"
            fix = "\n".join([*_lines(moved), f"# or unedited, {with_old}"])
        else:
            what = f"TensorFlow 2 has nothing in place of {_listed(lost)}"
            fix = f"# {with_old}"
        module = name.partition(".")[0]
        why = f"no TensorFlow 2 has tensorflow.{module}: it ends with an error at this line"
        yield ScriptProblem("source.v1_gone", "fail", node, what, (why,), fix)


def _uses(script: Script) -> Iterator[tuple[ast.AST, str]]:
    """The full names below those modules, each where it fails: at its import, if it has one."""
    used = list(_attributes(script))
    imports: list[tuple[ast.AST, str]] = []
    for node in ast.walk(script.tree):
        modules = [each for each in map(_below, imported_modules(node)) if each is not None]
        if modules:
            imports.append((node, max(modules, key=len)))
    for node, name in used:
        from_import = (each for each, module in imports if f"{name}.".startswith(f"{module}."))
        yield next(from_import, node), name
    for node, module in imports:
        if not any(f"{name}.".startswith(f"{module}.") for _, name in used):
            yield node, module


def _attributes(script: Script) -> Iterator[tuple[ast.AST, str]]:
    inner = {node.value for node in ast.walk(script.tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(script.tree):
        if isinstance(node, ast.Attribute) and node not in inner:
            name = _below(script.names.of(node))
            if name is not None and "." in name:
                yield node, name


def _below(name: str) -> str | None:
    """``contrib.rnn.LSTMCell`` for a name in one of those modules; None for others."""
    name = name.removeprefix("tensorflow.").removeprefix("compat.v1.")
    if name.startswith(_DATA):
        return _DATA  # the names of its functions no longer matter
    return name if name.partition(".")[0] in _MODULES else None


def _replacement(name: str) -> str | None:
    """The replacement for ``name``, as a script would write it."""
    for old, new in REPLACEMENTS.items():
        if name == old:
            return f"tf.{new}"
    of_layers = name.removeprefix("contrib.layers.")
    if of_layers in _SLIM_ITSELF:
        return f"slim.{of_layers}"
    if of_layers.startswith(_NOT_IN_SLIM):
        return None
    for old, new in _SLIM.items():
        if name == old or name.startswith(f"{old}."):
            return f"{new}{name.removeprefix(old)}"
    return None


def _lines(moved: dict[str, str]) -> Iterator[str]:
    """The imports needed, and each name with its replacement."""
    if any(new.startswith("slim") for new in moved.values()):
        yield "import tf_slim as slim  # pip install tf_slim"
    if any(new.startswith("tf.") for new in moved.values()):
        yield "import tensorflow.compat.v1 as tf"
    if any("rnn_cell" in new for new in moved.values()):
        yield "# above it, and with `pip install tf_keras`:"
        yield '# os.environ["TF_USE_LEGACY_KERAS"] = "1"'
    yield from (f"# {_written(old)} is {new}" for old, new in moved.items())


def _written(name: str) -> str:
    """The name as scripts write it."""
    return f"{'tf' if name.startswith('contrib') else 'tensorflow'}.{name}"


def _listed(names: list[str]) -> str:
    shown = [_written(name) for name in names[:_MOST_NAMES]]
    more = len(names) - _MOST_NAMES
    return ", ".join(shown) if more <= 0 else f"{', '.join(shown)} and {more} more"
