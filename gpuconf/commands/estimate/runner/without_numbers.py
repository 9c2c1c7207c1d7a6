"""Decide what a run without numbers cannot decide: branches, loop ends, how many ids differ.

In such a run these values would be garbage: Keras's loss scaling, for example, would skip the
update.
"""

from __future__ import annotations

from typing import Any

_CONDITIONS = ("If", "StatelessIf")
_CASES = ("Case", "StatelessCase")
LOOPS = ("While", "StatelessWhile")
_UNIQUES = ("Unique", "UniqueV2", "UniqueWithCounts", "UniqueWithCountsV2")
# Operations whose results are as long as the data says: by which input, and where its type is.
OPEN_SIZES = {
    "Where": (0, "T"),
    "ListDiff": (0, "T"),
    "DynamicPartition": (1, ""),
    "RaggedRange": (1, "T"),
    **{f"NonMaxSuppressionV{version}": (1, "T") for version in (3, 4, 5)},
}
# Operations that fail where an index is out of range.
_INDEXED = {
    "ScatterNd": (0, "Tindices"),
    **{f"TensorScatter{change}": (1, "Tindices") for change in ("Update", "Add", "Sub", "Max")},
}
_CPU = "/device:CPU:0"


def decide(definition: Any) -> None:
    """Change a GraphDef so that it needs a lot of memory, and the same amount in each run.

    Each condition takes its largest branch, counted in operations, and the ids whose duplicates are
    removed are all different.  The CPU decides when loops end, so loops with a counter run in full.
    Results whose length depends on the data are computed from zeros, so they are mostly empty.
    """
    functions = {each.signature.name: each.node_def for each in definition.library.function}
    _decide(definition.node, functions, "")
    for nodes in functions.values():
        _decide(nodes, functions, ":output:0")


def _decide(nodes: Any, functions: dict[str, Any], output: str) -> None:
    """Do this in one list of nodes; ``output`` is how a node in it names a constant's output."""
    for node in list(nodes):
        if node.op in (*_CONDITIONS, *_CASES):
            _choose_branch(nodes, node, functions, output)
        elif node.op in _UNIQUES:
            _make_different(nodes, node, output)
        elif node.op in OPEN_SIZES:
            _make_zero(nodes, node, output, *OPEN_SIZES[node.op])
            node.device = _CPU
        elif node.op in _INDEXED:
            _make_zero(nodes, node, output, *_INDEXED[node.op])
        elif node.op in LOOPS:
            for each in functions[node.attr["cond"].func.name]:
                each.device = _CPU


def _choose_branch(nodes: Any, node: Any, functions: dict[str, Any], output: str) -> None:
    is_condition = node.op in _CONDITIONS
    if is_condition:
        names = [node.attr["else_branch"].func.name, node.attr["then_branch"].func.name]
    else:
        names = [each.name for each in node.attr["branches"].list.func]
    sizes = [_operations(name, functions) for name in names]
    largest = sizes.index(max(sizes))
    name = f"{node.name}_gpuconf_branch"
    value, dtype = (bool(largest), "bool") if is_condition else (largest, "int32")
    nodes.add().CopyFrom(_constant(name, value, dtype))
    node.input[0] = f"{name}{output}"


def _operations(name: str, functions: dict[str, Any]) -> int:
    """How many operations a function has, including those of the functions that it calls."""
    nodes = functions.get(name, ())
    values = [value for node in nodes for value in node.attr.values()]
    called = [function.name for value in values for function in (value.func, *value.list.func)]
    return len(nodes) + sum(_operations(each, functions) for each in called if each)


def _make_zero(nodes: Any, node: Any, output: str, number: int, attribute: str) -> None:
    """Give one node zeros in place of an input whose type is an attribute or int32."""
    import tensorflow as tf

    name = f"{node.name}_gpuconf_zeros"
    zeros = nodes.add(name=name, op="ZerosLike", input=[node.input[number]], device=_CPU)
    dtype = node.attr[attribute].type if attribute else tf.int32.as_datatype_enum
    zeros.attr["T"].type = dtype
    node.input[number] = f"{name}{output.replace('output', 'y')}"


def _make_different(nodes: Any, node: Any, output: str) -> None:
    """Give one node the numbers from 0 up in place of its ids, and let the CPU compare them."""
    import tensorflow as tf

    dtype = tf.as_dtype(node.attr["T"].type)
    if dtype not in (tf.int32, tf.int64):
        return
    own = f"{node.name}_gpuconf"
    for name, value in (("start", 0), ("step", 1)):
        nodes.add().CopyFrom(_constant(f"{own}_{name}", value, dtype))
    size = nodes.add(name=f"{own}_size", op="Size", input=[node.input[0]])
    size.attr["T"].type = size.attr["out_type"].type = dtype.as_datatype_enum
    inputs = [f"{own}_{name}{output}" for name in ("start", "size", "step")]
    numbers = nodes.add(name=f"{own}_numbers", op="Range", input=inputs, device=_CPU)
    numbers.attr["Tidx"].type = dtype.as_datatype_enum
    node.input[0] = f"{own}_numbers{output}"
    node.device = _CPU


def _constant(name: str, value: int, dtype: Any) -> Any:
    import tensorflow as tf

    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = tf.as_dtype(dtype).as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, shape=()))
    return node
