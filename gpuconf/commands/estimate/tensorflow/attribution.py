"""Attribute operations to a part of the step and a layer, and find the purpose of their memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gpuconf.commands.estimate.keras_models.layer_calls import Span
from gpuconf.commands.estimate.step import (
    ACTIVATION,
    BACKWARD,
    FORWARD,
    GRADIENT,
    TEMPORARY,
    UPDATE,
    Operation,
    Piece,
)
from gpuconf.commands.estimate.tensorflow.walk import OperationPlace

_TAPE = "gradient_tape"  # the prefix of a tape's gradients in TensorFlow


def operations_of(
    graph: Any, places: Iterable[OperationPlace], spans: Iterable[Span]
) -> tuple[Operation, ...]:
    """The operations that run, with their part and layer.

    Operations traced after the last gradient update weights and metrics, whenever they run.
    """
    names = [operation.name for operation in graph.get_operations()]
    gradients = [number for number, name in enumerate(names) if _TAPE in name]
    last = gradients[-1] if gradients else len(names)
    parts = {
        name: BACKWARD if _TAPE in name else UPDATE if number > last else FORWARD
        for number, name in enumerate(names)
    }
    layers = LayersByName(names, spans)
    return tuple(
        Operation(place.name, place.kind, parts.get(place.name, FORWARD), layers.of(place.name))
        for place in places
    )


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


def named_pieces(pieces: Sequence[Piece], operations: Sequence[Operation]) -> tuple[Piece, ...]:
    """The pieces with their purpose."""
    last_users = {
        piece.goes_on_from: piece.first for piece in pieces if piece.goes_on_from is not None
    }
    return tuple(
        piece._replace(kind=_kind(piece, last_users.get(number, piece.last), operations))
        if piece.kind == TEMPORARY
        else piece
        for number, piece in enumerate(pieces)
    )


def _kind(piece: Piece, last_user: int, operations: Sequence[Operation]) -> str:
    """The purpose; a result of the backward pass that the update needs is a gradient."""
    part = operations[piece.first].part
    if part == FORWARD:
        return ACTIVATION
    updates = operations[last_user].part == UPDATE
    return GRADIENT if part == BACKWARD and updates else TEMPORARY
