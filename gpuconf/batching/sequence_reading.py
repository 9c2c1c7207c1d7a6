"""Batches of a `keras.utils.PyDataset`, read as Keras does: by its workers, with its hooks."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

_QUEUED = 10  # Keras's max_queue_size


def is_sequence(data: Any) -> bool:
    """Whether it has batches by number: a PyDataset, a Sequence of Keras 2, or the like."""
    return hasattr(data, "__getitem__") and _length_of(data) is not None


def batches_of(data: Any, steps: int | None) -> Generator[Any, None, None]:
    """The batches of one epoch in order, at most ``steps`` of them.

    With more than one worker threads read ahead; Keras's processes are threads here, too.
    """
    batches = _length_of(data)
    assert batches is not None
    count = batches if steps is None else min(batches, steps)
    _call(data, "on_epoch_begin")
    workers = int(getattr(data, "workers", None) or 1)
    if workers > 1:
        yield from _read_ahead(data, count, workers)
    else:
        yield from map(data.__getitem__, range(count))
    _call(data, "on_epoch_end")


def _read_ahead(data: Any, count: int, workers: int) -> Iterator[Any]:
    most = int(getattr(data, "max_queue_size", None) or _QUEUED)
    waiting: deque[Future[Any]] = deque()
    pool = ThreadPoolExecutor(workers, thread_name_prefix="gpuconf-predict")
    try:
        for number in range(count):
            waiting.append(pool.submit(data.__getitem__, number))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _length_of(data: Any) -> int | None:
    """Keras 3 asks for ``num_batches``, which is the length unless somebody says otherwise."""
    if hasattr(data, "num_batches"):
        return None if data.num_batches is None else int(data.num_batches)
    return len(data) if hasattr(data, "__len__") else None


def _call(data: Any, hook: str) -> None:
    """Older ones have none."""
    getattr(data, hook, lambda: None)()
