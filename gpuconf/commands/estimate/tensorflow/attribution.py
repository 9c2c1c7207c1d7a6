"""Attribute the operations of a trace to parts of the step and to layers, by name."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuconf.commands.estimate.keras_models.layer_calls import Span
from gpuconf.commands.estimate.step import BACKWARD, FORWARD, UPDATE

_TAPE = "gradient_tape"  # the prefix of a tape's gradients in TensorFlow


def parts_by_name(graph: Any) -> dict[str, str]:
    """The part of each operation of a trace.

    Operations traced after the last gradient count as updates of weights and metrics, no matter
    when they run.
    """
    names = [operation.name for operation in graph.get_operations()]
    gradients = [number for number, name in enumerate(names) if _TAPE in name]
    last = gradients[-1] if gradients else len(names)
    return {
        name: BACKWARD if _TAPE in name else UPDATE if number > last else FORWARD
        for number, name in enumerate(names)
    }


class LayersByName:
    """The layers of operations by name; a gradient belongs to its forward operation's layer."""

    def __init__(self, names: Sequence[str], spans: Iterable[Span]) -> None:
        self._by_name: dict[str, str] = {}
        for span in spans:
            for name in names[span.first : span.end]:
                self._by_name.setdefault(name, span.path)
        self._by_scope = _scopes(self._by_name)

    def of(self, name: str) -> str | None:
        """The layer, or None."""
        if name in self._by_name:
            return self._by_name[name]
        inner = name.partition(f"{_TAPE}/")[2] or name
        while inner:
            found = self._by_name.get(inner) or self._by_scope.get(inner)
            if found:
                return found
            inner = inner.rpartition("/")[0]
        return None


def _scopes(by_name: dict[str, str]) -> dict[str, str]:
    """The layer of each name scope that belongs to one layer only."""
    found: dict[str, str | None] = {}
    for name, layer in by_name.items():
        scope = name.rpartition("/")[0]
        while scope:
            found[scope] = layer if found.get(scope, layer) == layer else None
            scope = scope.rpartition("/")[0]
    return {scope: layer for scope, layer in found.items() if layer is not None}
