"""Whether a variable holds a whole data set, by its name and how the script makes it."""

from __future__ import annotations

import ast
import re

from gpuconf.commands.doctor.source.script import Script

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_HELD_OUT = {"test", "testing", "val", "valid", "validation"}
_PARTS = _HELD_OUT | {"train", "training", "all", "full"}
_MATTER = {"x", "images", "imgs", "img", "data", "features", "inputs", "samples", "set", "dataset"}
# If a call measures its own argument, these names also mean whole sets.
_PLAIN = {"x", "xs", "data", "images", "features", "inputs", "samples", "dataset"}
# TensorFlow 1's tutorials name their digits mnist.test.images.
_OF_TUTORIALS = re.compile(r"\.(?:test|validation)\.images$")


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
    """Whether the file creates the variable in one go, and not again in a loop around this use."""
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
