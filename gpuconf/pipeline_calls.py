"""Python that the threads of tf.data call, brought to an end before the interpreter ends.

While the interpreter ends, Python kills a thread of TensorFlow's that wants to go on, as one does
that comes back from reading a file (from 3.14 on it lets it hang).  TensorFlow then waits for it
without end: a script that dies in the middle of an epoch would never exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

# A pipeline's buffers are full within that, once reading takes no time.
_QUIET_S = 0.1
# An image is read in less; what takes longer may hang, as TensorFlow's own would.
_MOST_S = 20.0


class PipelineCalls:
    """Functions that a pipeline calls; at the end of the interpreter they are waited for.

    ``running`` is how many calls there are now.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """None is running; so it is in a forked child, which has none of its parent's threads."""
        self._changed = threading.Condition()
        self.running = 0
        self._begun = 0
        self._is_ending = False

    def ending_early(
        self, function: Callable[..., Any], instead: Callable[..., Any]
    ) -> Callable[..., Any]:
        """The function, until the interpreter ends; then ``instead``, which must take no time.

        It should let the pipeline's buffers become full, so that it rests, and give what nobody
        takes for data: a thread that goes on to the very end may still look at it.  What is asked
        for after that, by a function that the user has registered with atexit, is the function.
        """
        if self._is_ending:
            return function

        def called(*args: Any) -> Any:
            with self._changed:
                self._begun += 1
                if self._is_ending:
                    return instead(*args)
                self.running += 1
            try:
                return function(*args)
            finally:
                with self._changed:
                    self.running -= 1
                    self._changed.notify_all()

        return called

    def end(self) -> None:
        """Wait until no call is running and none has begun for a while."""
        with self._changed:
            self._is_ending = True
            self._changed.wait_for(lambda: not self.running, _MOST_S)
            for _ in range(int(_MOST_S / _QUIET_S)):
                begun = self._begun
                self._changed.wait(_QUIET_S)
                if self._begun == begun:
                    return


@functools.cache
def _all_calls() -> PipelineCalls:
    """Made after TensorFlow is there, whose own end comes after ours then."""
    made = PipelineCalls()
    atexit.register(made.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget)
    return made


def ending_early(function: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """`PipelineCalls.ending_early` for this interpreter."""
    return _all_calls().ending_early(function, instead)
