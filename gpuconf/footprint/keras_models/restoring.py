"""A model as it was before: what is changed for an estimate is put back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def restored(model: Any) -> Iterator[None]:
    """Whatever is set on the model inside is undone: attributes, and what its lists hold."""
    attributes = dict(vars(model))
    contents = [(value, _copy(value)) for value in attributes.values() if _is_container(value)]
    tracker = attributes.get("_tracker")  # Keras 3: which variables, layers, metrics it has
    ids = {name: set(known) for name, known in tracker.stored_ids.items()} if tracker else {}
    is_locked = getattr(tracker, "locked", None)
    try:
        yield
    finally:
        vars(model).clear()
        vars(model).update(attributes)
        for value, copied in contents:
            _refill(value, copied)
        if tracker:
            tracker.stored_ids = ids
            tracker.locked = is_locked


def _is_container(value: Any) -> bool:
    """Lists, dicts and sets, and Keras's own kinds of them; not proxies that only look so."""
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
