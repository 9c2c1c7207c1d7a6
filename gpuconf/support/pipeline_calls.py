"""Python functions called by tf.data threads, brought to an end before the interpreter exits.

While the interpreter exits, Python kills any TensorFlow thread that tries to continue, such as one
that returns from reading a file (since 3.14 the thread hangs instead).  TensorFlow then waits for
that thread forever: a script that fails in the middle of an epoch would never exit.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections.abc import Callable
from typing import Any

# A pipeline fills its buffers within this time once reading takes no time.
_QUIET_S = 0.1
# Reading an image takes less; a longer read may hang, as it would with TensorFlow's own reader.
_MOST_S = 20.0


class PipelineCalls:
    """Functions called by a pipeline; the interpreter waits for them before it exits.

    ``running`` is the number of calls in progress.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the counters; a forked child has none of its parent's threads."""
        self._changed = threading.Condition()
        self.running = 0
        self._begun = 0
        self._is_ending = False

    def ending_early(
        self, function: Callable[..., Any], instead: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a function that calls ``function`` until the interpreter exits, then ``instead``.

        ``instead`` must return immediately. It should let the pipeline's buffers fill up, so that
        it becomes idle, and return something that is not mistaken for data: a thread that runs to
        the very end may still read it. If this is called after the exit has begun, by a function
        that the user has registered with atexit, it returns ``function`` itself.
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
        """Wait until no call is running and none has started for a while."""
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
    """Created after TensorFlow is loaded, so that our exit handler runs before TensorFlow's."""
    made = PipelineCalls()
    atexit.register(made.end)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget)
    return made


def ending_early(function: Callable[..., Any], instead: Callable[..., Any]) -> Callable[..., Any]:
    """Call `PipelineCalls.ending_early` for this interpreter."""
    return _all_calls().ending_early(function, instead)
