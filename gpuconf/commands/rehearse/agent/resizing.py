"""Batches of a different size, made on the host, for each kind of data that Keras accepts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from gpuconf.support.keras_api import nests
from gpuconf.support.keras_api.batches import examples


def dataset(data: Any, wanted: int) -> Any:
    """The same examples in batches of ``wanted``; a fixed batch size stays fixed."""
    import tensorflow

    shapes = [spec.shape for spec in tensorflow.nest.flatten(data.element_spec)]
    is_fixed = all(shape.rank and shape[0] is not None for shape in shapes)
    return data.unbatch().batch(wanted, drop_remainder=is_fixed).prefetch(1)


def sequence(data: Any, own: int | None, wanted: int) -> Any:
    """A sequence whose batches are the given ones, truncated or concatenated."""
    if own is None:
        raise ValueError("its first batch has no examples")
    together = math.ceil(wanted / own)

    class Resized(type(data)):  # type: ignore[misc]  # what Keras checks for, with its options
        def __init__(self) -> None:
            self.__dict__.update(data.__dict__)

        def __len__(self) -> int:
            return max(1, len(data) // together)

        def __getitem__(self, index: int) -> Any:
            places = range(index * together, (index + 1) * together)
            joined = nests.joined([data[place % len(data)] for place in places])
            return nests.part(joined, 0, wanted)

        def on_epoch_end(self) -> None:
            data.on_epoch_end()

    return Resized()


def generator(
    batches: Iterator[Any], wanted: int | None, report: Callable[[int | None], None]
) -> Iterator[Any]:
    """Yield the batches unchanged, or with ``wanted`` examples; call ``report(own size)`` once."""
    own: int | None = None
    for batch in batches:
        if own is None:
            own = examples(batch)
            report(own)
        if wanted is None or own is None:
            yield batch
            continue
        parts = [batch]
        while sum(examples(part) or wanted for part in parts) < wanted:
            parts.append(next(batches, batch))
        yield nests.part(nests.joined(parts), 0, wanted)


def repeated(batch: Any, wanted: int) -> Any:
    """A batch of ``wanted`` examples: the first of them, or all of them repeated."""
    times = math.ceil(wanted / (examples(batch) or wanted))
    return nests.part(nests.joined([batch] * times), 0, wanted)
