"""Operations that either complete or restore the previous state, whatever exception they raise."""

from __future__ import annotations

from collections.abc import Callable
from threading import RLock
from typing import TypeVar

from gpuconf.errors import GpuconfError, without_frames

_T = TypeVar("_T")


class AllOrNothing:
    """Runs operations one thread at a time; an operation may run nested operations.

    ``snapshot`` records everything an operation may change and returns a function that restores it.
    ``complete`` runs when the outermost operation succeeds, and releases what only a restore would
    have needed.
    """

    def __init__(
        self, snapshot: Callable[[], Callable[[], None]], complete: Callable[[], None]
    ) -> None:
        self._snapshot = snapshot
        self._complete = complete
        self._lock = RLock()
        self._depth = 0  # current nesting depth of operations
        self._completed = 0  # shows whether an operation was the last one to complete

    def run(self, operation: Callable[[], _T]) -> _T:
        """Run ``operation`` and return its result; if it raises, restore the state first."""
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
            # The message is enough; the frames below this one do not help the user.
            raise without_frames(error) from None
        except BaseException:  # including an interrupt that arrives as the lock is released
            with self._lock:
                if put_back is not None and number and self._completed == number:
                    put_back()
            raise

    def after_fork(self) -> None:
        """Reset the lock in a forked child; a thread that does not exist there may have held it."""
        self._lock, self._depth = RLock(), 0
