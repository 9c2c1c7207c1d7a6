"""A whole data set given to the card at once: as one batch, or as one tensor."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from gpuconf.doctor.source.script import Problem, Script, argument

# Methods that take what they are given as one batch.
_ONE_BATCH = {"predict_on_batch", "test_on_batch", "train_on_batch"}
_IN_BATCHES = {"fit": 2, "predict": 1, "evaluate": 2}  # where batch_size stands among the positions
_INSTEAD = {"predict_on_batch": "predict", "test_on_batch": "evaluate", "train_on_batch": "fit"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_PARTS = {"test", "testing", "train", "training", "val", "valid", "validation", "all", "full"}
_MATTER = {"x", "images", "imgs", "img", "data", "features", "inputs", "samples", "set", "dataset"}
# Where a call measures its own argument, these names are of whole sets too.
_PLAIN = {"x", "xs", "data", "images", "features", "inputs", "samples", "dataset"}
# Sets so small that one batch is what one would choose.
_TOYS = {"load_iris", "load_wine", "load_digits", "load_breast_cancer", "load_diabetes"}
_TOYS |= {"make_moons", "make_circles", "make_blobs", "make_classification", "make_regression"}
_MODEL_MAKERS = {"Sequential", "Model", "load_model", "model_from_json", "clone_model"}
_BATCH_SIZE = 32
_TENSOR_MAKERS = {"tensorflow.constant", "tensorflow.convert_to_tensor"}
_LONGEST_CALL = 60


def whole_set_at_once(script: Script) -> Iterator[Problem]:
    """``source.whole_set``: memory for all samples at once, where 32 at a time would do."""
    if any(_last_name(call.func) in _TOYS for call, _ in script.calls()):
        return
    for call, name in script.calls():
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if method in _ONE_BATCH and _is_whole(script, argument(call, 0, "x")):
            yield _problem(call, _quoted(call), _by_batches(call, _INSTEAD[method]))
        elif method in _IN_BATCHES and _sized_by_data(script, call, method):
            yield _problem(call, f"batch_size of {method}", _with_batch_size(call, method))
        elif _calls_model(script, call) and _is_whole(script, argument(call, 0, "inputs")):
            yield _problem(call, _quoted(call), _by_batches(call, "predict"))
        elif _calls_function(script, call, name):
            yield _problem(call, _quoted(call), _slices(call))
        elif name in _TENSOR_MAKERS and _is_put_on_the_card(script, call):
            yield _one_tensor(script, call)


def _problem(call: ast.Call, how: str, fix: str) -> Problem:
    return Problem(
        "source.whole_set",
        "warn",
        call,
        f"{how} gives the card a whole data set as one batch",
        ("the activations of all samples are in its memory at once",),
        fix,
    )


def _one_tensor(script: Script, call: ast.Call) -> Problem:
    statement = next((each for each in script.above(call) if isinstance(each, ast.stmt)), None)
    whole = statement if isinstance(statement, ast.Assign | ast.Expr) else call
    return Problem(
        "source.whole_set",
        "warn",
        call,
        f"{_quoted(call)} copies a whole data set to the card",
        ("it stays there beside the model and the activations as long as the tensor is used",),
        f'with {script.tf}.device("CPU"):  # kept in host memory, from which batches are copied\n'
        f"    {ast.unparse(whole)}",
    )


def _quoted(call: ast.Call) -> str:
    text = ast.unparse(call)
    short = f"{ast.unparse(call.func)}(...)"
    return f"`{text if len(text) <= _LONGEST_CALL and chr(10) not in text else short}`"


# --- what is a whole data set -----------------------------------------------------------------


def _is_whole(script: Script, node: ast.expr | None) -> bool:
    """Whether ``node`` is a variable like x_test, made by the file, and not in pieces."""
    if isinstance(node, ast.List) and len(node.elts) == 1:
        node = node.elts[0]
    if not isinstance(node, ast.Name) or not _names_a_set(node.id):
        return False
    return _is_made_whole(script, node)


def _is_made_whole(script: Script, node: ast.Name) -> bool:
    """Whether the file makes the variable, in one go, and not anew in a loop around this use."""
    values = script.values_of(node.id)
    if not values or any(value is None or _is_piece(value) for value in values):
        return False
    loops = [each for each in script.above(node) if isinstance(each, ast.For | ast.While)]
    return not any(script.is_bound_in(node.id, loop) for loop in loops)


def _names_a_set(name: str) -> bool:
    words = {word.lower() for word in _WORDS.findall(name)}
    return bool(words & _PARTS) and (bool(words & _MATTER) or name[:1].lower() == "x")


def _is_piece(value: ast.expr) -> bool:
    """Whether a value is a part of something, a batch, or a handful written out."""
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript) and not isinstance(node.slice, ast.Constant | ast.Tuple):
            return True
        if isinstance(node, ast.Name | ast.Attribute) and _hints_at_piece(node):
            return True
    is_literal = isinstance(value, ast.List | ast.Tuple | ast.Constant)
    in_array = isinstance(value, ast.Call) and bool(value.args)
    first = value.args[0] if isinstance(value, ast.Call) and in_array else None
    return is_literal or isinstance(first, ast.List | ast.Tuple)


def _hints_at_piece(node: ast.Name | ast.Attribute) -> bool:
    word = (node.id if isinstance(node, ast.Name) else node.attr).lower()
    pieces = ("batch", "next", "take", "sample", "choice", "expand_dims", "gen", "iter", "loader")
    return any(piece in word for piece in pieces)


def _sized_by_data(script: Script, call: ast.Call, method: str) -> bool:
    """Whether ``batch_size`` is the length of the data that the call is about."""
    data = argument(call, 0, "x")
    size = script.value(argument(call, _IN_BATCHES[method], "batch_size"))
    measured = _measured(size)
    if data is None or not isinstance(measured, ast.Name):
        return False
    is_own = ast.dump(measured) == ast.dump(data) and measured.id.lower() in _PLAIN
    return _is_whole(script, measured) or (is_own and _is_made_whole(script, measured))


def _measured(size: ast.expr | None) -> ast.expr | None:
    """``x`` of ``len(x)`` and of ``x.shape[0]``."""
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and len(size.args) == 1:
        return size.args[0] if size.func.id == "len" else None
    if isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute):
        is_first = isinstance(size.slice, ast.Constant) and size.slice.value == 0
        return size.value.value if size.value.attr == "shape" and is_first else None
    return None


# --- what is called ---------------------------------------------------------------------------


def _calls_model(script: Script, call: ast.Call) -> bool:
    """Whether a variable is called that holds a Keras model."""
    if not isinstance(call.func, ast.Name) or not call.args:
        return False
    values = script.values_of(call.func.id)
    return bool(values) and all(_makes_model(script, value) for value in values)


def _makes_model(script: Script, value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    name = script.names.of(value.func)
    is_application = name.startswith("keras.applications.")
    return is_application or (name.startswith("keras.") and _last_name(value.func) in _MODEL_MAKERS)


def _is_put_on_the_card(script: Script, call: ast.Call) -> bool:
    """Whether a tensor is made of a whole set, not in a graph and not under a ``tf.device``."""
    withs = [each for each in script.above(call) if isinstance(each, ast.With)]
    entered = {item.context_expr for each in withs for item in each.items}
    if (
        any(isinstance(each, ast.Call) and _last_name(each.func) == "device" for each in entered)
        or script.is_graph_mode
    ):
        return False
    return _is_whole(script, argument(call, 0, "value"))


def _calls_function(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a ``K.function`` is called with a whole set."""
    if name or not isinstance(call.func, ast.Name):
        return False
    values = script.values_of(call.func.id)
    made = [script.names.of(each.func) for each in values if isinstance(each, ast.Call)]
    return made == ["keras.backend.function"] and _is_whole(script, argument(call, 0, "inputs"))


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))


# --- rewrites ---------------------------------------------------------------------------------


def _by_batches(call: ast.Call, method: str) -> str:
    receiver = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    texts = [ast.unparse(each) for each in call.args[: _IN_BATCHES[method]]]
    kept = [ast.unparse(each) for each in call.keywords if each.arg in ("x", "y")]
    arguments = ", ".join([*texts, *kept, f"batch_size={_BATCH_SIZE}"])
    return f"{ast.unparse(receiver)}.{method}({arguments})"


def _with_batch_size(call: ast.Call, method: str) -> str:
    texts = [ast.unparse(each) for each in call.args[: _IN_BATCHES[method]]]
    kept = [ast.unparse(each) for each in call.keywords if each.arg != "batch_size"]
    return f"{ast.unparse(call.func)}({', '.join([*texts, *kept, f'batch_size={_BATCH_SIZE}'])})"


def _slices(call: ast.Call) -> str:
    given = call.args[0]
    data = given.elts[0] if isinstance(given, ast.List) else given
    name, function = ast.unparse(data), ast.unparse(call.func)
    return (
        f"outputs = [{function}([{name}[i : i + {_BATCH_SIZE}]])[0] "
        f"for i in range(0, len({name}), {_BATCH_SIZE})]"
    )
