"""Operations that each complete, or leave everything as it was, whatever is raised in them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from gpuconf.errors import GpuconfError

_Before = TypeVar("_Before")
_T = TypeVar("_T")


class AllOrNothing(Generic[_Before]):
    """Runs operations, one thread at a time; an operation may run others within it.

    ``snapshot`` gives all that they may change, and ``restore`` puts it back; ``complete`` lets go
    of what only a restore would have needed, when the outermost operation has come through.
    """

    def __init__(
        self,
        snapshot: Callable[[], _Before],
        restore: Callable[[_Before], None],
        complete: Callable[[], None],
    ) -> None:
        self._snapshot = snapshot
        self._restore = restore
        self._complete = complete
        self._lock = threading.RLock()
        self._depth = 0  # operations that run, one within the other
        self._completed = 0  # to know whether an operation was the last

    def run(self, operation: Callable[[], _T]) -> _T:
        """What ``operation`` returns; whatever it raises, everything is put back before."""
        before, number = None, 0
        try:
            with self._lock:
                before, depth = self._snapshot(), self._depth
                try:
                    self._depth = depth + 1
                    result = operation()
                    if not depth:
                        self._complete()
                    self._completed += 1
                    number = self._completed
                    return result
                except BaseException:
                    self._restore(before)
                    raise
                finally:
                    self._depth = depth
        except GpuconfError as error:
            # Its message says all; the frames below this one say nothing to the user.
            raise error.with_traceback(None) from None
        except BaseException:  # of an interrupt, too, that came as the lock was released
            with self._lock:
                if before is not None and number and self._completed == number:
                    self._restore(before)
            raise

    def unless_busy(self, operation: Callable[[], None]) -> None:
        """Call ``operation`` unless another thread is at work here, or this one already is."""
        is_held = False
        try:
            is_held = self._lock.acquire(blocking=False)
            if is_held and not self._depth:
                operation()
        finally:
            if is_held:
                self._lock.release()

    def after_fork(self) -> None:
        """In a forked child: a thread that is not in the child may have held the lock."""
        self._lock, self._depth = threading.RLock(), 0
