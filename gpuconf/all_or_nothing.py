"""Operations that each complete, or leave everything as it was, whatever is raised in them."""

from __future__ import annotations

from gpuconf.errors import GpuconfError
from gpuconf.locks import RLock

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    _T = TypeVar("_T")


class AllOrNothing:
    """Runs operations, one thread at a time; an operation may run others within it.

    ``snapshot`` notes all that they may change, and gives what puts it back; ``complete`` lets go
    of what only that would have needed, when the outermost operation has come through.
    """

    def __init__(
        self, snapshot: Callable[[], Callable[[], None]], complete: Callable[[], None]
    ) -> None:
        self._snapshot = snapshot
        self._complete = complete
        self._lock = RLock()
        self._depth = 0  # operations that run, one within the other
        self._completed = 0  # to know whether an operation was the last

    def run(self, operation: Callable[[], _T]) -> _T:
        """What ``operation`` returns; whatever it raises, everything is put back before."""
        put_back, number = None, 0
        try:
            with self._lock:
                put_back, depth = self._snapshot(), self._depth
                try:
                    self._depth = depth + 1
                    result = operation()
                    if not depth:
                        self._complete()
                    self._completed += 1
                    number = self._completed
                    return result
                except BaseException:
                    put_back()
                    raise
                finally:
                    self._depth = depth
        except GpuconfError as error:
            # Its message says all; the frames below this one say nothing to the user.
            raise error.with_traceback(None) from None
        except BaseException:  # of an interrupt, too, that came as the lock was released
            with self._lock:
                if put_back is not None and number and self._completed == number:
                    put_back()
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
        self._lock, self._depth = RLock(), 0
