"""Tables of what held the memory, for ``--verbose``."""

from __future__ import annotations

from collections.abc import Iterator

from gpuconf.basics.units import sized
from gpuconf.commands.explain.diagnosis import Diagnosis
from gpuconf.support.failures.facts.allocations import Allocations
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.reporting.lines import Table

_MOST_ROWS = 20


def tables_of(diagnosis: Diagnosis) -> Iterator[Table]:
    """The tables that this log has data for; usually none."""
    facts = diagnosis.facts
    if facts.allocations is not None:
        yield _layers(facts.allocations)
    if facts.dump is not None:
        if facts.dump.by_operation:
            yield _operations(facts.dump)
        yield _chunks(facts.dump)
        if facts.dump.free_chunks:
            yield _free(facts.dump)


def _layers(table: Allocations) -> Table:
    rows = []
    layers = table.layers
    for layer in layers[:_MOST_ROWS]:
        rows.append((layer.name, sized(layer.size_bytes), ""))
        if len(layer.nodes) > 1 or layer.nodes[0].node != layer.name:
            rows += [("", sized(node.size_bytes), node.node) for node in layer.nodes[:_MOST_ROWS]]
    rest = table.rest_bytes + sum(layer.size_bytes for layer in layers[_MOST_ROWS:])
    if rest:
        rows.append(("(smaller ones)", sized(rest), ""))
    title = f"memory by layer, {sized(table.total_bytes)} in total, of {table.allocator}"
    return Table(("layer", "memory", "node"), rows, title)


def _operations(dump: Dump) -> Table:
    rows = [(name, sized(size)) for name, size in dump.by_operation[:_MOST_ROWS]]
    if rest := sum(size for _, size in dump.by_operation[_MOST_ROWS:]):
        rows.append(("(others)", sized(rest)))
    return Table(("operation", "memory"), rows, "used by operation")


def _chunks(dump: Dump) -> Table:
    largest = sorted(dump.in_use, key=lambda chunks: -chunks.total_bytes)
    rows = [
        (sized(each.size_bytes), str(each.number), sized(each.total_bytes))
        for each in largest[:_MOST_ROWS]
    ]
    rest = largest[_MOST_ROWS:]
    if rest:
        count, size = sum(each.number for each in rest), sum(each.total_bytes for each in rest)
        rows.append(("(others)", str(count), sized(size)))
    return Table(("size", "count", "together"), rows, "chunks in use")


def _free(dump: Dump) -> Table:
    sizes = sorted(dump.free_chunks or (), reverse=True)
    rows = [(sized(size),) for size in sizes[:_MOST_ROWS]]
    if len(sizes) > _MOST_ROWS:
        rows.append((f"({len(sizes) - _MOST_ROWS} smaller ones)",))
    return Table(("size",), rows, "free chunks")
