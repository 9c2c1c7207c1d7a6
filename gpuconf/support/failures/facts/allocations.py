"""The table of ``report_tensor_allocations_upon_oom``: the memory of each node, by layer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from gpuconf.basics.json_shape import Bytes, json_shape
from gpuconf.support.failures.facts.tensor import logged_size
from gpuconf.support.failures.log.watchers import LogLine

_DEVICE = re.compile(r"Current usage from device: ([^\s,]{1,200}), allocator: (\w{1,60})")
_ROW = re.compile(r"^\s*(\d[\d.]{0,20}[KMGT]?i?B) from (\S{1,500})")
_REMAINING = re.compile(r"Remaining (\d{1,19}) nodes with (\d[\d.]{0,20}[KMGT]?i?B)")
# Prefixes that TensorFlow's graph rewriting puts before the name of a rewritten node.
_REWRITTEN = re.compile(
    r"^(?:gradients/|gradient_tape/|training/|[^/]{1,200}/gradients/)*"
    r"|-\d{1,3}-\w{1,60}(?:Optimizer|NCHW|NHWC)\w{0,60}(?=-|$)"
)


class NodeAllocation(NamedTuple):
    """The memory of one graph node."""

    node: str
    """The node's name."""
    size_bytes: Bytes
    """The memory that it held."""


class Layer(NamedTuple):
    """The memory of one layer: the sum over its nodes."""

    name: str
    """The layer's name."""
    size_bytes: Bytes
    """The memory that its nodes held."""
    nodes: tuple[NodeAllocation, ...]
    """Its nodes."""


@json_shape(hidden=("line", "nodes"), computed=("total_bytes", "layers"))
class Allocations(NamedTuple):
    """Memory of ``allocator`` by node, largest first, when it could not allocate a tensor."""

    line: int
    device: str
    """The device, in TensorFlow's notation."""
    allocator: str
    """For example GPU_0_bfc."""
    nodes: tuple[NodeAllocation, ...]
    rest_bytes: Bytes
    """The memory of smaller nodes, which the report does not name."""

    @property
    def total_bytes(self) -> Bytes:
        """The memory of all nodes."""
        return sum(node.size_bytes for node in self.nodes) + self.rest_bytes

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The nodes grouped by layer, largest layer first."""
        groups: dict[str, list[NodeAllocation]] = {}
        for node in self.nodes:
            groups.setdefault(layer_of(node.node), []).append(node)
        layers = [
            Layer(name, sum(node.size_bytes for node in nodes), tuple(nodes))
            for name, nodes in groups.items()
        ]
        return tuple(sorted(layers, key=lambda layer: -layer.size_bytes))


def layer_of(node: str) -> str:
    """The layer of a node: ``conv2d`` for ``gradients/conv2d/Conv2D_grad/Conv2DBackpropInput``.

    A node that TensorFlow's layout optimizer adds, ``…-TransposeNHWCToNCHW-LayoutOptimizer``,
    belongs to the layer whose tensor it transposes.
    """
    parts = [part for part in _REWRITTEN.sub("", node).split("/") if part]
    parts = [part.split("-0-")[0].split("-1-")[0] for part in parts]
    return (
        parts[0]
        if len(parts) < 3
        else "/".join(parts[:-1])
        if "_grad" not in parts[-2]
        else parts[0]
    )


class AllocationReader:
    """Watches a log for the report's tables; keeps the largest."""

    parts: Sequence[str] = ()
    phrases: Sequence[str] = (
        "current usage from device", "MiB from", "GiB from", "KiB from", "B from",
        "Remaining nodes",
    )  # fmt: skip

    def __init__(self) -> None:
        self._tables: list[Allocations] = []

    def see(self, line: LogLine) -> None:
        """Note a table's header, a row, or the end."""
        text = line.text[:2000]
        if found := _DEVICE.search(text):
            self._tables.append(Allocations(line.number, found[1], found[2], (), 0))
        elif not self._tables:
            return
        elif found := _ROW.match(text):
            row = NodeAllocation(found[2], logged_size(found[1]) or 0)
            last = self._tables[-1]
            if row not in last.nodes or len(last.nodes) < 200:
                self._tables[-1] = last._replace(nodes=(*last.nodes, row))
        elif found := _REMAINING.search(text):
            rest = logged_size(found[2]) or 0
            self._tables[-1] = self._tables[-1]._replace(rest_bytes=rest)

    def allocations(self) -> Allocations | None:
        """The table of the allocator that held the most memory; None if the log has no table."""
        return max(self._tables, key=lambda table: table.total_bytes, default=None)
