"""The layers of a model, and the Keras attributes of each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuconf.errors import UsageError
from gpuconf.support.keras_api.families import KerasFamily


def layers_of(model: Any, *, include_self: bool = False) -> list[Any]:
    """All layers inside a model, at any depth.

    If this Keras cannot list them, the layers that its nested models list.
    """
    flatten = getattr(model, "_flatten_layers", None)
    if flatten is not None:
        return list(flatten(include_self=include_self))
    found = [model] if include_self else []
    for layer in getattr(model, "layers", ()):
        found += layers_of(layer, include_self=True)
    return found


def is_leaf(layer: Any) -> bool:
    """Whether a layer has no sublayers."""
    return not layers_of(layer)


def leaves_with_weights(model: Any) -> list[Any]:
    """The layers that hold weights directly."""
    return [each for each in layers_of(model) if each.weights and is_leaf(each)]


@contextmanager
def attribute_set(layers: list[Any], name: str, value: Any) -> Iterator[None]:
    """Within the context, this layer attribute has the given value; afterwards it is restored."""
    before = [(layer, getattr(layer, name)) for layer in layers]
    try:
        for layer in layers:
            setattr(layer, name, value)
        yield
    finally:
        for layer, old in before:
            setattr(layer, name, old)


@contextmanager
def recomputed(layers: list[Any], family: KerasFamily) -> Iterator[None]:
    """Within the context, these layers recompute their results in the backward pass.

    Raises UsageError if this Keras does not support recomputation.
    """
    if not hasattr(family.keras, "RematScope"):
        raise UsageError("this version of Keras has no RematScope", hint="pip install 'keras>=3.9'")
    with family.keras.RematScope(mode="full"):
        mode = getattr(family.keras.layers.Identity(), "_remat_mode", None)
    if mode is None:
        raise UsageError("this version of Keras sets rematerialization in a way unknown to gpuconf")
    with attribute_set(layers, "_remat_mode", mode):
        yield


def lists_of_losses(layer: Any) -> list[tuple[dict[str, Any], str]]:
    """Where a layer keeps the losses that it adds; Keras 2 has two lists, one for each thread."""
    local = vars(layer).get("_thread_local")
    holders = [vars(layer), *([] if local is None else [vars(local)])]
    places = [(held, name) for held in holders for name in ("_losses", "_eager_losses")]
    return [(held, name) for held, name in places if name in held]
