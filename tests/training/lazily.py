"""TensorFlow and Keras for tables that pytest reads too: imported at the first use, not before.

The tables of operations are full of ``tf.…`` inside functions; pytest needs only their names and
must not wait for an import of several seconds, nor make devices, in its own process.
"""

from __future__ import annotations

import importlib
from typing import Any


class _Lazily:
    """A module that is imported when something is asked of it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)


tf: Any = _Lazily("tensorflow")
keras: Any = _Lazily("keras")
