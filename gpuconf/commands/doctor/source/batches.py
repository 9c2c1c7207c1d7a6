"""A whole data set given to the GPU at once: as one batch, or as one tensor."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpuconf.commands.doctor.source.script import Script, ScriptProblem, argument
from gpuconf.commands.doctor.source.whole_sets import is_held_out, is_measured, is_whole

# Methods that treat their input as one batch, and the ones that split it into batches.
_ONE_BATCH = {"predict_on_batch": "predict", "test_on_batch": "evaluate", "train_on_batch": "fit"}
# Data sets so small that a single batch is a sensible choice.
_TOYS = {"load_iris", "load_wine", "load_digits", "load_breast_cancer", "load_diabetes"}
_TOYS |= {"make_moons", "make_circles", "make_blobs", "make_classification", "make_regression"}
_MODEL_MAKERS = {"Sequential", "Model", "load_model", "model_from_json", "clone_model"}
_RUNS_GRAPH = {"run": 1, "eval": 0}  # the position of feed_dict
_TENSOR_MAKERS = {"tensorflow.constant", "tensorflow.convert_to_tensor"}
_LONGEST_CALL = 60
# The position of batch_size in methods that work in batches: after the data.
_BATCH_SIZE_AT = {"fit": 2, "predict": 1, "evaluate": 2}
# What to call in place of it, with the same arguments where they are dots.
_IN_PARTS = {
    "predict": "import gpuconf\ngpuconf.predict(...)  # or Keras's predict(..., batch_size=32)",
    "evaluate": "import gpuconf\ngpuconf.evaluate(...)  # or Keras's evaluate(..., batch_size=32)",
    "fit": "import gpuconf\ngpuconf.fit(...)  # that batch in parts; or fit(..., batch_size=32)",
    "call": "import gpuconf\ngpuconf.oom_safe(...)  # around the call, which then gets parts of it",
    "session": "import gpuconf\ngpuconf.session_evaluate(...)  # session, tensors, feed",
    "function": "# call it with slices of 32 in a loop, and join what it returns",
}


def whole_set_at_once(script: Script) -> Iterator[ScriptProblem]:
    """``source.whole_set``: memory for all samples at once, although 32 at a time would do."""
    if any(_last_name(call.func) in _TOYS for call, _ in script.calls()):
        return
    for call, name in script.calls():
        if not name.startswith("gpuconf."):  # gpuconf's calls split a whole set
            yield from _problems_of(script, call, name)


def _problems_of(script: Script, call: ast.Call, name: str) -> Iterator[ScriptProblem]:
    method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if method in _ONE_BATCH and is_whole(script, argument(call, 0, "x")):
        yield _problem(call, _quoted(call), _IN_PARTS[_ONE_BATCH[method]])
    elif method in _BATCH_SIZE_AT and _sized_by_data(script, call, method):
        yield _problem(call, f"batch_size of {method}", _IN_PARTS[method])
    elif _calls_model(script, call) and is_whole(script, argument(call, 0, "inputs")):
        training = script.constant(argument(call, 1, "training"))
        yield _problem(call, _quoted(call), _IN_PARTS["call" if training else "predict"])
    elif _calls_function(script, call, name):
        yield _problem(call, _quoted(call), _IN_PARTS["function"])
    elif name in _TENSOR_MAKERS and _is_put_on_the_card(script, call):
        yield _one_tensor(script, call)
    elif _feeds_whole_set(script, call, method):
        yield _problem(call, _quoted(call), _IN_PARTS["session"])


def _problem(call: ast.Call, how: str, fix: str) -> ScriptProblem:
    return ScriptProblem(
        "source.whole_set",
        "warn",
        call,
        f"{how} sends a whole data set to the GPU as one batch",
        ("the activations of all samples are in its memory at once",),
        fix,
    )


def _one_tensor(script: Script, call: ast.Call) -> ScriptProblem:
    statement = next((each for each in script.above(call) if isinstance(each, ast.stmt)), None)
    whole = statement if isinstance(statement, ast.Assign | ast.Expr) else call
    return ScriptProblem(
        "source.whole_set",
        "warn",
        call,
        f"{_quoted(call)} copies a whole data set to the GPU",
        ("it stays there next to the model and the activations as long as the tensor is used",),
        f'with {script.tf}.device("CPU"):  # kept in host memory, from which batches are copied\n'
        f"    {ast.unparse(whole)}\n"
        "# or leave the array: gpuconf.fit, evaluate and predict hand over a batch of it at a time",
    )


def _quoted(call: ast.Call) -> str:
    text = ast.unparse(call)
    short = f"{ast.unparse(call.func)}(...)"
    return f"`{text if len(text) <= _LONGEST_CALL and chr(10) not in text else short}`"


# --- what is called ---------------------------------------------------------------------------


def _calls_model(script: Script, call: ast.Call) -> bool:
    """Whether the call is to a variable that holds a Keras model."""
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


def _sized_by_data(script: Script, call: ast.Call, method: str) -> bool:
    """Whether ``batch_size`` is the length of the data in this call."""
    size = argument(call, _BATCH_SIZE_AT[method], "batch_size")
    return is_measured(script, size, argument(call, 0, "x"))


def _feeds_whole_set(script: Script, call: ast.Call, method: str) -> bool:
    """Whether ``session.run(t, feed)`` or ``t.eval(feed)`` is fed a whole test set.

    Not a training set: a training operation must run as often as before.
    """
    if method not in _RUNS_GRAPH:
        return False
    fed = script.value(argument(call, _RUNS_GRAPH[method], "feed_dict"))
    values = fed.values if isinstance(fed, ast.Dict) else []
    is_run = method == "eval" or bool(call.args)  # an operation's own run() has no fetches
    return is_run and any(is_held_out(script, each) for each in values)


def _is_put_on_the_card(script: Script, call: ast.Call) -> bool:
    """Whether a tensor is made from a whole set, outside a graph and any ``tf.device``."""
    withs = [each for each in script.above(call) if isinstance(each, ast.With)]
    entered = {item.context_expr for each in withs for item in each.items}
    if (
        any(isinstance(each, ast.Call) and _last_name(each.func) == "device" for each in entered)
        or script.is_graph_mode
    ):
        return False
    return is_whole(script, argument(call, 0, "value"))


def _calls_function(script: Script, call: ast.Call, name: str) -> bool:
    """Whether a ``K.function`` is called with a whole set."""
    if name or not isinstance(call.func, ast.Name):
        return False
    values = script.values_of(call.func.id)
    made = [script.names.of(each.func) for each in values if isinstance(each, ast.Call)]
    return made == ["keras.backend.function"] and is_whole(script, argument(call, 0, "inputs"))


def _last_name(node: ast.expr) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
