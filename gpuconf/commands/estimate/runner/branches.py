"""Choose the branch of each condition in a graph, since a run without numbers cannot.

The condition would be garbage there: Keras's loss scaling, for example, would skip the update.
"""

from __future__ import annotations

from typing import Any

_CONDITIONS = ("If", "StatelessIf")
_CASES = ("Case", "StatelessCase")


def choose_branches(definition: Any) -> None:
    """Make each condition of a GraphDef take its largest branch, counted in operations."""
    functions = {each.signature.name: each.node_def for each in definition.library.function}
    _choose(definition.node, functions, "")
    for nodes in functions.values():
        _choose(nodes, functions, ":output:0")


def _choose(nodes: Any, functions: dict[str, Any], output: str) -> None:
    """Do so in one list of nodes; ``output`` is how a node in it names a constant's output."""
    for node in list(nodes):
        if node.op in _CONDITIONS:
            names = [node.attr["else_branch"].func.name, node.attr["then_branch"].func.name]
        elif node.op in _CASES:
            names = [each.name for each in node.attr["branches"].list.func]
        else:
            continue
        sizes = [_operations(name, functions) for name in names]
        name = f"{node.name}_gpuconf_branch"
        nodes.add().CopyFrom(_constant(name, sizes.index(max(sizes)), node.op in _CONDITIONS))
        node.input[0] = f"{name}{output}"


def _operations(name: str, functions: dict[str, Any]) -> int:
    """How many operations a function has, with those of the functions that it calls."""
    nodes = functions.get(name, ())
    called = (value.func.name for node in nodes for value in node.attr.values())
    return len(nodes) + sum(_operations(each, functions) for each in called if each)


def _constant(name: str, number: int, is_truth: bool) -> Any:
    import tensorflow as tf

    kind = tf.bool if is_truth else tf.int32
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = kind.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(
        tf.make_tensor_proto(bool(number) if is_truth else number, kind, shape=())
    )
    return node
