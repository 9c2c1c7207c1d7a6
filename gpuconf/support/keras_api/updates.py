"""Where in a traced graph a Keras 3 optimizer updates the variables, and traces without updates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def updates_noted(optimizer: Any, graph_of: Callable[[], Any]) -> Iterator[list[range]]:
    """Record the ids of the operations that each call of ``apply`` adds to ``graph_of()``.

    Calls with sparse gradients, as of an embedding, are not recorded, because their number of rows
    depends on the batch.
    """
    found: list[range] = []
    own: Any = getattr(optimizer, "apply", None)

    def apply(grads: Any, *arguments: Any, **options: Any) -> Any:
        graph = graph_of()
        first = graph.version
        try:
            return own(grads, *arguments, **options)
        finally:
            if not any(hasattr(each, "indices") for each in grads):
                found.append(range(first, graph.version))

    with _in_place_of_apply(optimizer, apply):
        yield found


@contextmanager
def without_updates(optimizer: Any) -> Iterator[None]:
    """Make ``apply`` do nothing: most of what it traces does not depend on the batch."""

    def apply(*_arguments: Any, **_options: Any) -> Any:
        return optimizer.iterations

    with _in_place_of_apply(optimizer, apply):
        yield


@contextmanager
def _in_place_of_apply(optimizer: Any, apply: Callable[..., Any]) -> Iterator[None]:
    if not hasattr(optimizer, "apply"):  # no optimizer, or Keras 2's
        yield
        return
    optimizer.__dict__["apply"] = apply
    try:
        yield
    finally:
        del optimizer.__dict__["apply"]
