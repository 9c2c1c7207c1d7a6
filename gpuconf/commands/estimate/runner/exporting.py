"""Export a traced step to files, so that another process can run it without the user's code.

``graph.pb`` holds the graph with its functions, ``step.json`` its inputs and outputs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.basics.json_values import decoded, plain
from gpuconf.commands.estimate.runner.without_numbers import decide
from gpuconf.commands.estimate.step import Variable
from gpuconf.errors import BackendError
from gpuconf.support.keras_api import graphs
from gpuconf.support.keras_api.graphs import handled_spec

GRAPH, STEP = "graph.pb", "step.json"
_MOST_VALUE_BYTES = 1 << 16  # of captured constants exported with their values, such as shapes


class Tensor(NamedTuple):
    """A tensor in the graph: its name and properties, with ``values`` for small constants.

    ``kind`` is the purpose of a variable.  A variable that the graph does not use has no name.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Any = None
    kind: str = ""


class ExportedStep(NamedTuple):
    """The graph's interface: the batch, the variables behind handles, and captured constants.

    ``is_compiled`` says whether XLA compiles the step.
    """

    data: tuple[Tensor, ...]
    variables: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    is_compiled: bool


class CapturedVariable(NamedTuple):
    """A variable, and its handle in the graph; None if the graph does not use it."""

    variable: Variable
    handle: Any


def export(
    graph: Any,
    variables: Iterable[CapturedVariable],
    folder: Path,
    *,
    is_compiled: bool,
    counts_unread: bool,
) -> None:
    """Write a traced step; raise BackendError if no other process can compile or run it.

    The process creates the variables in this order.  Inputs that no operation reads are left out
    unless ``counts_unread``. If the step is not compiled, whatever would depend on values is
    decided in advance.
    """
    data = [_tensor(each) for each in graphs.batch_inputs(graph, counts_unread=counts_unread)]
    constants = [
        _tensor(tensor)._replace(values=_values(outside))
        for outside, tensor in graph.captures
        if tensor.dtype.name != "resource"
    ]
    step = ExportedStep(
        data=tuple(data),
        variables=tuple(_exported(each) for each in variables),
        constants=tuple(constants),
        outputs=tuple(tensor.name for tensor in graph.outputs if tensor is not None),
        is_compiled=is_compiled,
    )
    given = {tensor.name.partition(":")[0] for tensor in graph.inputs}
    definition = graph.as_graph_def()
    kept = [node for node in definition.node if node.name not in given]
    del definition.node[:]
    definition.node.extend(kept)
    _without_colocations(definition, given)
    if not is_compiled:
        decide(definition)
    (folder / GRAPH).write_bytes(definition.SerializeToString())
    (folder / STEP).write_text(json.dumps(plain(step)), encoding="utf-8")


def _without_colocations(definition: Any, left: set[str]) -> None:
    """Remove operations' requests to be placed with a node that was left out (Keras 2)."""
    for node in definition.node:
        places = node.attr["_class"].list.s if "_class" in node.attr else ()
        if any(place.decode().removeprefix("loc:@") in left for place in places):
            del node.attr["_class"]


def read_step(folder: Path) -> ExportedStep:
    """Read a step that `export` wrote."""
    return decoded(ExportedStep, json.loads((folder / STEP).read_text(encoding="utf-8")))


def _exported(captured: CapturedVariable) -> Tensor:
    variable, handle = captured
    if handle is None:
        return Tensor("", (variable.size_bytes,), "uint8", kind=variable.kind)
    spec = handled_spec(handle)
    if spec is None:
        raise BackendError(
            f"a step that uses a lookup table or the like ({handle.name}) cannot run on its own",
            hint="gpuconf rehearse runs the whole script",
        )
    return Tensor(handle.name, tuple(spec.shape), spec.dtype.name, kind=variable.kind)


def _tensor(tensor: Any) -> Tensor:
    if not tensor.shape.is_fully_defined():
        raise BackendError(
            f"a step needs known shapes, but {tensor.name} has {tensor.shape}",
            hint="pass the full shape: gpuconf estimate … --input-shape 224,224,3",
        )
    return Tensor(tensor.name, tuple(tensor.shape), tensor.dtype.name)


def _values(outside: Any) -> Any:
    values = outside.numpy() if hasattr(outside, "numpy") else None
    if values is None or values.nbytes > _MOST_VALUE_BYTES or values.dtype.kind not in "biuf":
        return None
    return values.tolist()
