"""``RLock`` and ``local`` of `threading`, which takes them from the interpreter too.

The module itself has much besides, which `import gpuconf.auto` needs not.
"""

from __future__ import annotations

from _thread import RLock
from _thread import _local as local

__all__ = ["RLock", "local"]
