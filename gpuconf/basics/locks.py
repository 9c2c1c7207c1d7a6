"""``RLock`` and ``local``, imported from the same modules as `threading` uses.

`import gpuconf.auto` needs nothing else from `threading`, which would import functools.
"""

from __future__ import annotations

from _thread import RLock
from _thread import _local as local

__all__ = ["RLock", "local"]
