"""``RLock`` and ``local``, from where `threading` takes them.

`import gpuconf.auto` needs nothing else of that module, which imports functools for the rest.
"""

from __future__ import annotations

from _thread import RLock
from _thread import _local as local

__all__ = ["RLock", "local"]
