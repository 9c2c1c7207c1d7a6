"""Batches by number: in order, by the workers that the sequence requests, with its hooks."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from gpuconf.batching.predicting import batches_of, is_sequence


class Sequenced:
    """Twenty batches; notes what is called, and by which threads."""

    def __init__(self, workers: int, queue: int = 3) -> None:
        self.workers, self.max_queue_size = workers, queue
        self.hooks: list[str] = []
        self.threads: set[int] = set()
        self.read: list[int] = []
        self._together = threading.Barrier(workers, timeout=60) if workers > 1 else None

    def __len__(self) -> int:
        return 20

    def __getitem__(self, number: int) -> int:
        if self._together is not None and number < self.workers:
            self._together.wait()  # ends only if so many threads are here at once
        self.threads.add(threading.get_ident())
        self.read.append(number)
        return number * number

    def on_epoch_begin(self) -> None:
        """Keras 3's."""
        self.hooks.append("begin")

    def on_epoch_end(self) -> None:
        """Keras 2's, too."""
        self.hooks.append("end")


@pytest.mark.parametrize(("workers", "steps"), [(1, None), (1, 5), (2, None), (3, 7), (2, 99)])
def test_all_in_order(workers: int, steps: int | None) -> None:
    """Each batch once, as many threads as requested, and both hooks once."""
    data = Sequenced(workers)
    found = list(batches_of(data, steps))
    assert found == [number * number for number in range(min(20, steps or 20))]
    assert sorted(data.read) == list(range(len(found)))
    assert data.hooks == ["begin", "end"]
    is_here = threading.get_ident() in data.threads
    assert is_here if workers == 1 else not is_here and len(data.threads) == workers


def test_no_more_is_read_ahead_than_its_queue_holds() -> None:
    """And nothing once nobody wants more."""
    data = Sequenced(2, queue=3)
    batches = batches_of(data, None)
    assert [next(batches), next(batches)] == [0, 1]
    batches.close()
    assert len(data.read) <= 5 + 1
    assert data.hooks == ["begin"]


def test_its_error_is_raised_at_its_place() -> None:
    """Those before it are handed over first."""

    class Broken(Sequenced):
        def __getitem__(self, number: int) -> int:
            if number == 4:
                raise OSError("batch 4 cannot be read")
            return super().__getitem__(number)

    batches = batches_of(Broken(2), None)
    assert [next(batches) for _ in range(4)] == [0, 1, 4, 9]
    with pytest.raises(OSError, match="batch 4"):
        next(batches)


def test_what_has_no_hooks_and_no_workers() -> None:
    """A list of batches is one, an iterator is none."""
    data: list[Any] = ["a", "b"]
    assert is_sequence(data)
    assert list(batches_of(data, None)) == data
    assert not is_sequence(iter(data))
