"""Rewrites that process data in parts: with gpuconf's calls, and with Keras alone."""

from __future__ import annotations

import ast
import re

from gpuconf.commands.doctor.source.environment import settings_at
from gpuconf.commands.doctor.source.script import Script, argument

# The position of batch_size in methods that work in batches: after the data.
BATCH_SIZE_AT = {"fit": 2, "predict": 1, "evaluate": 2}
# The weight arguments of train_on_batch and test_on_batch, which affect what is learned and
# reported.
_WEIGHTS_AT = {
    "fit": {"sample_weight": 2, "class_weight": 3},
    "evaluate": {"sample_weight": 2},
    "predict": {},
}
_BATCH_SIZE = 32
_BACKEND = "KERAS_BACKEND"
_SIZE = (224, 224)
_RESIZERS = {"resize", "load_img"}
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_HELD_OUT = {"test", "testing", "val", "valid", "validation"}
_PARTS = _HELD_OUT | {"train", "training", "all", "full"}
_MATTER = {"x", "images", "imgs", "img", "data", "features", "inputs", "samples", "set", "dataset"}
# If a call measures its own argument, these names also mean whole sets.
_PLAIN = {"x", "xs", "data", "images", "features", "inputs", "samples", "dataset"}
# TensorFlow 1's tutorials name their digits mnist.test.images.
_OF_TUTORIALS = re.compile(r"\.(?:test|validation)\.images$")


def of_one_batch(script: Script, call: ast.Call, method: str) -> str:
    """For ``model(x)`` and ``model.predict_on_batch(x)``: ``method`` with the same data."""
    training = None if isinstance(call.func, ast.Attribute) else argument(call, 1, "training")
    if training is not None and script.constant(training) is not False:
        return _of_training_mode(script, call)
    model = ast.unparse(call.func.value if isinstance(call.func, ast.Attribute) else call.func)
    given = [ast.unparse(each) for each in call.args[: BATCH_SIZE_AT[method]]]
    given += [ast.unparse(each) for each in call.keywords if each.arg in ("x", "y")]
    weights = {name: argument(call, place, name) for name, place in _WEIGHTS_AT[method].items()}
    given += [f"{name}={ast.unparse(each)}" for name, each in weights.items() if each is not None]
    data = _inside_list(argument(call, 0, "x"))
    # The batch affects what is learned, so it stays; gpuconf.fit splits it.
    same = [f"batch_size=len({ast.unparse(data)})"] if method == "fit" and data else []
    return _both(
        script,
        f"gpuconf.{method}({', '.join([model, *given, *same])})",
        f"{model}.{method}({', '.join([*given, f'batch_size={_BATCH_SIZE}'])})",
    )


def of_batch_size(script: Script, call: ast.Call, method: str) -> str:
    """For ``batch_size=len(x)``: keep it in ``fit``; in the others gpuconf finds one."""
    function = ast.unparse(call.func)
    ours = _given(call, method, None if method == "fit" else '"auto"')
    return _both(
        script,
        f"gpuconf.{method}({', '.join([function.rpartition('.')[0], *ours])})",
        f"{function}({', '.join(_given(call, method, str(_BATCH_SIZE)))})",
    )


def _given(call: ast.Call, method: str, batch_size: str | None) -> list[str]:
    """All arguments of the call, with another batch size if there is one."""
    positional = [ast.unparse(each) for each in call.args]
    place = BATCH_SIZE_AT[method]
    if batch_size is not None and len(positional) > place:
        positional[place] = batch_size
    named = [
        f"batch_size={batch_size}"
        if each.arg == "batch_size" and batch_size is not None
        else ast.unparse(each)
        for each in call.keywords
    ]
    return [*positional, *named]


def _of_training_mode(script: Script, call: ast.Call) -> str:
    """For ``model(x, training=True)``, such as dropout to estimate a model's uncertainty."""
    x = ast.unparse(call.args[0]) if call.args else "x"
    others = [ast.unparse(each) for each in (*call.args[1:], *call.keywords)]
    model = ast.unparse(call.func)
    rows = f"{x}[i : i + {_BATCH_SIZE}]"
    return _both(
        script,
        f"gpuconf.oom_safe(lambda rows: {model}({', '.join(['rows', *others])}))({x})",
        f"[{model}({', '.join([rows, *others])}) for i in range(0, len({x}), {_BATCH_SIZE})]",
    )


def of_session(script: Script, call: ast.Call, feed: ast.expr) -> str:
    """For ``session.run(t, feed)`` and ``t.eval(feed)``; without gpuconf it takes a loop."""
    owner, _, method = ast.unparse(call.func).rpartition(".")
    if method == "run":
        session, tensors = owner, ast.unparse(call.args[0])
    else:
        given = argument(call, 1, "session")
        default = f"{script.tf}.compat.v1.get_default_session()"
        session, tensors = ast.unparse(given) if given is not None else default, owner
    return f"import gpuconf\ngpuconf.session_evaluate({session}, {tensors}, {ast.unparse(feed)})"


def of_function(call: ast.Call) -> str:
    """For a ``K.function``, whose inputs and outputs are lists: slice by slice."""
    data = _inside_list(argument(call, 0, "inputs"))
    name, function = ast.unparse(data or call), ast.unparse(call.func)
    return (
        f"outputs = [{function}([{name}[i : i + {_BATCH_SIZE}]])[0] "
        f"for i in range(0, len({name}), {_BATCH_SIZE})]"
    )


def of_images(script: Script) -> str:
    """For images in a list: stream from their paths, reading a few ahead of the training."""
    size, names = _picture_size(script), script.names
    keras = names.alias("keras", names.alias("tensorflow.keras", f"{script.tf}.keras"))
    name, end = ("stream", "") if _is_on_tensorflow(script) else ("sequence", ", shuffle=False")
    scale = ', scale="0-1"' if _scales(script) else ""
    return (
        "import gpuconf.images\n\n"
        f"data = gpuconf.images.{name}(\n"
        f'    paths, labels, size={size}, batch_size={_BATCH_SIZE}{scale}, host_limit="2GiB")\n'
        f"model.fit(data{end})\n"
        "# or without gpuconf, from a folder with a folder for each class:\n"
        f'# data = {keras}.utils.image_dataset_from_directory("images", '
        f"image_size={size}, batch_size={_BATCH_SIZE})"
    )


def _both(script: Script, ours: str, theirs: str) -> str:
    """gpuconf's call, with Keras's as a comment; only Keras's if gpuconf does not apply."""
    if not _is_on_tensorflow(script):
        return theirs
    return f"import gpuconf\n{ours}\n# or without gpuconf:\n" + "\n".join(
        f"# {line}" for line in theirs.splitlines()
    )


def _is_on_tensorflow(script: Script) -> bool:
    """Whether Keras uses TensorFlow, as far as the script shows."""
    set_here = [each for node in ast.walk(script.tree) for each in settings_at(script, node)]
    backends = [script.constant(each.value) for each in set_here if each.variable == _BACKEND]
    return all(backend in (None, "tensorflow") for backend in backends)


def _scales(script: Script) -> bool:
    """Whether the script divides by 255 anywhere."""
    divided = (
        getattr(node, "right", getattr(node, "value", None))
        for node in ast.walk(script.tree)
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div)
    )
    return any(isinstance(each, ast.Constant) and each.value == 255 for each in divided)


def _picture_size(script: Script) -> tuple[int, int]:
    """Height and width to which the script resizes; squares only, as libraries differ in order."""
    for call, _ in script.calls():
        if str(getattr(call.func, "attr", getattr(call.func, "id", ""))) not in _RESIZERS:
            continue
        for given in (*call.args, *(each.value for each in call.keywords)):
            pair = script.value(given)
            sides = [script.constant(each) for each in getattr(pair, "elts", ())[:2]]
            if len(sides) == 2 and isinstance(sides[0], int) and sides[0] == sides[1]:
                return sides[0], sides[0]
    return _SIZE


def is_whole(script: Script, node: ast.expr | None) -> bool:
    """Whether ``node`` is a variable like x_test that the file creates, and not a single batch."""
    node = _inside_list(node)
    return isinstance(node, ast.Name) and _names_a_set(node.id) and _is_made_whole(script, node)


def is_held_out(script: Script, node: ast.expr | None) -> bool:
    """Whether it is a whole set that is not used for training: x_test, mnist.test.images."""
    if isinstance(node, ast.Attribute):
        return _OF_TUTORIALS.search(ast.unparse(node)) is not None
    named = isinstance(node, ast.Name) and bool(_words(node.id) & _HELD_OUT)
    return named and is_whole(script, node)


def is_measured(script: Script, size: ast.expr | None, data: ast.expr | None) -> bool:
    """Whether a size is the length of a whole set, or of the call's own ``data``."""
    measured = _measured(script.value(size))
    if data is None or not isinstance(measured, ast.Name):
        return False
    is_own = ast.dump(measured) == ast.dump(data) and measured.id.lower() in _PLAIN
    return is_whole(script, measured) or (is_own and _is_made_whole(script, measured))


def _inside_list(node: ast.expr | None) -> ast.expr | None:
    """``x`` for ``[x]``, a valid argument for a model with one input; otherwise unchanged."""
    return node.elts[0] if isinstance(node, ast.List) and len(node.elts) == 1 else node


def _is_made_whole(script: Script, node: ast.Name) -> bool:
    """Whether the file creates the variable at once, and not again in a loop around this use."""
    values = script.values_of(node.id)
    if not values or any(value is None or _is_piece(value) for value in values):
        return False
    loops = [each for each in script.above(node) if isinstance(each, ast.For | ast.While)]
    return not any(script.is_bound_in(node.id, loop) for loop in loops)


def _names_a_set(name: str) -> bool:
    words = _words(name)
    return bool(words & _PARTS) and (bool(words & _MATTER) or name[:1].lower() == "x")


def _words(name: str) -> set[str]:
    return {word.lower() for word in _WORDS.findall(name)}


def _is_piece(value: ast.expr) -> bool:
    """Whether a value is part of something, a batch, or a short literal."""
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


def _measured(size: ast.expr | None) -> ast.expr | None:
    """``x`` for ``len(x)`` and ``x.shape[0]``."""
    if isinstance(size, ast.Call) and isinstance(size.func, ast.Name) and len(size.args) == 1:
        return size.args[0] if size.func.id == "len" else None
    if isinstance(size, ast.Subscript) and isinstance(size.value, ast.Attribute):
        is_first = isinstance(size.slice, ast.Constant) and size.slice.value == 0
        return size.value.value if size.value.attr == "shape" and is_first else None
    return None
