"""Run all samples of a call part by part; a part that does not fit is undone and split."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol, TypeVar

from gpuconf.batching.failures import OutOfMemory, attempt, explain_on_stderr, lost_donated_argument
from gpuconf.batching.size import CardBatch

Result = TypeVar("Result")

_ROWS_AT_A_TIME = 32
_DONATED = (
    "JAX has consumed a donated argument (donate_argnums), so the call cannot be "
    "repeated with fewer samples"
)


class Undoable(Protocol):
    """State that a part may change: saved before it, restored if it fails."""

    def hold(self) -> None:
        """Save the current values."""

    def put_back(self) -> None:
        """Restore the saved values."""


def in_parts(
    samples: int,
    card_batch: CardBatch,
    run: Callable[[int, int], Result],
    *,
    state: Undoable | None = None,
    cut: Callable[[int, int], int] = min,
) -> Iterator[tuple[Result, int]]:
    """Yield the result of ``run(start, end)`` and the number of samples for each part.

    ``cut(samples, most)`` returns the size of the parts for that many samples if the GPU can hold
    ``most`` of them.

    Raises the error from a part that does not fit if no smaller part can help.
    """
    start = size = most = 0
    refused: OutOfMemory | None = None
    while start < samples:
        if card_batch.size != most:
            most = card_batch.size
            size = cut(samples - start, most)
        end = min(samples, start + size)
        if state is not None:
            state.hold()
        try:
            result, failure = attempt(partial(run, start, end))
        except Exception as error:
            if refused is None or not lost_donated_argument(error):
                raise
            explain_on_stderr(refused.error, f"{card_batch.what}: {_DONATED}")
            raise refused.error from error
        if failure is None:
            card_batch.succeeded(end - start)
            yield result, end - start
            start = end
        else:
            if state is not None:
                state.put_back()
            card_batch.failed(failure, end - start)
            refused = failure


def even(samples: int, most: int) -> int:
    """Return a size that gives parts of about the same size, a multiple of 32 if possible.

    Kernels process rows in groups and treat the remaining rows differently, which may change the
    rounding. If each part starts at a multiple, every row is computed as it would be in the whole
    batch.
    """
    if samples <= most:
        return samples
    size = math.ceil(samples / math.ceil(samples / most))
    step = _ROWS_AT_A_TIME
    while step > most:
        step //= 2
    return min(math.ceil(size / step) * step, most // step * step)


@contextmanager
def progress_bar(what: str, samples: int, wanted: bool | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on stderr, advanced by sample counts; None shows it only on a terminal."""
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(what, total=samples)
        yield lambda count: progress.advance(task, count)
