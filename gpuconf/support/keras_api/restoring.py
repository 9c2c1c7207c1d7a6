"""Restore the state that a model had before an estimate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from gpuconf.support.keras_api.compiled import compiled_parts
from gpuconf.support.keras_api.layers import layers_of, lists_of_losses


@contextmanager
def restored(model: Any) -> Iterator[None]:
    """On exit, undo all changes to the model: attributes, and the contents of its lists.

    This includes its compilation, and the losses that its layers added, because losses from a trace
    cannot be read later.
    """
    with ExitStack() as stack:
        for changed in (model, *compiled_parts(model)):
            if changed is not None:
                stack.enter_context(_restored(changed))
        for layer in layers_of(model):
            stack.enter_context(_same_losses(layer))
        yield


@contextmanager
def _restored(changed: Any) -> Iterator[None]:
    attributes = dict(vars(changed))
    contents = [(value, _copy(value)) for value in attributes.values() if _is_container(value)]
    tracker = attributes.get("_tracker")  # Keras 3: its variables, layers and metrics
    ids = {name: set(known) for name, known in tracker.stored_ids.items()} if tracker else {}
    is_locked = getattr(tracker, "locked", None)
    try:
        yield
    finally:
        vars(changed).clear()
        vars(changed).update(attributes)
        for value, copied in contents:
            _refill(value, copied)
        if tracker:
            tracker.stored_ids = ids
            tracker.locked = is_locked


@contextmanager
def _same_losses(layer: Any) -> Iterator[None]:
    before = [(held, name, held[name]) for held, name in lists_of_losses(layer)]
    copies = [list(losses) for _, _, losses in before]
    try:
        yield
    finally:
        for (held, name, losses), copied in zip(before, copies, strict=True):
            held[name] = losses
            _refill(losses, copied)


def _is_container(value: Any) -> bool:
    """Whether it is a list, dict or set, or Keras's own version of one; proxies are excluded."""
    return issubclass(type(value), list | dict | set)


def _copy(value: Any) -> Any:
    base = next(kind for kind in (list, dict, set) if issubclass(type(value), kind))
    return base(value)


def _refill(value: Any, copied: Any) -> None:
    if isinstance(copied, list):
        list.__setitem__(value, slice(None), copied)
    elif isinstance(copied, dict):
        dict.clear(value)
        dict.update(value, copied)
    else:
        set.clear(value)
        set.update(value, copied)
