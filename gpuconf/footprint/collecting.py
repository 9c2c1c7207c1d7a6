"""Python's garbage collector, kept out of the way of what makes many objects that live on.

An import of TensorFlow, a trace and its walk make a million of them.  Looking for garbage among
them takes a sixth to a third of the time and finds next to none.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collecting() -> Iterator[None]:
    """Garbage in cycles stays until afterwards: some 10 MiB for each trace of a ResNet50."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def made_to_stay() -> Iterator[None]:
    """What is made inside, and what was there before, is never looked at again: libraries."""
    with no_collecting():
        yield
        gc.freeze()
