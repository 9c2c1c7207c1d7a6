"""Export a traced step to files, so that another process can compile it without the user's code.

``graph.pb`` holds the graph with its functions, ``step.json`` its inputs and outputs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.errors import BackendError
from gpuconf.support.keras_api.graphs import handled_spec

GRAPH, STEP = "graph.pb", "step.json"
_MOST_VALUE_BYTES = 1 << 16  # of captured constants exported with their values, such as shapes


class Tensor(NamedTuple):
    """A tensor of the graph: name and properties, and ``values`` for small constants."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    values: Any = None


class ExportedStep(NamedTuple):
    """The graph's interface: the batch, the variables behind handles, captured constants."""

    data: tuple[Tensor, ...]
    variables: tuple[Tensor, ...]
    constants: tuple[Tensor, ...]
    outputs: tuple[str, ...]


def export(graph: Any, folder: Path) -> None:
    """Write a traced step; BackendError if it cannot be passed to XLA."""
    inside = {id(tensor) for _, tensor in graph.captures}
    data = [_tensor(each) for each in graph.inputs if id(each) not in inside]
    variables, constants = [], []
    for outside, tensor in graph.captures:
        spec = handled_spec(tensor)
        if spec is not None:
            variables.append(Tensor(tensor.name, tuple(spec.shape), spec.dtype.name))
        elif tensor.dtype.name == "resource":
            raise BackendError(
                f"XLA compiles no step that uses a lookup table or the like ({tensor.name})",
                hint="compile(..., jit_compile=False)",
            )
        else:
            constants.append(_tensor(tensor)._replace(values=_values(outside)))
    outputs = tuple(tensor.name for tensor in graph.outputs if tensor is not None)
    step = ExportedStep(tuple(data), tuple(variables), tuple(constants), outputs)
    given = {tensor.name.partition(":")[0] for tensor in graph.inputs}
    definition = graph.as_graph_def()
    kept = [node for node in definition.node if node.name not in given]
    del definition.node[:]
    definition.node.extend(kept)
    (folder / GRAPH).write_bytes(definition.SerializeToString())
    (folder / STEP).write_text(json.dumps(step._asdict()), encoding="utf-8")


def read_step(folder: Path) -> ExportedStep:
    """Read a step that `export` has written."""
    facts = json.loads((folder / STEP).read_text(encoding="utf-8"))
    groups = {
        name: tuple(Tensor(each[0], tuple(each[1]), *each[2:]) for each in facts[name])
        for name in ("data", "variables", "constants")
    }
    return ExportedStep(**groups, outputs=tuple(facts["outputs"]))


def _tensor(tensor: Any) -> Tensor:
    if not tensor.shape.is_fully_defined():
        raise BackendError(
            f"XLA compiles for known shapes, and {tensor.name} has {tensor.shape}",
            hint="give the whole shape: gpuconf estimate … --input-shape 224,224,3",
        )
    return Tensor(tensor.name, tuple(tensor.shape), tensor.dtype.name)


def _values(outside: Any) -> Any:
    values = outside.numpy() if hasattr(outside, "numpy") else None
    if values is None or values.nbytes > _MOST_VALUE_BYTES or values.dtype.kind not in "biuf":
        return None
    return values.tolist()
