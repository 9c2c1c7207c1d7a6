"""Whether this process is a worker of a pool."""

from __future__ import annotations

import sys


def is_worker() -> bool:
    """Whether multiprocessing, or multiprocess, started this process; imports neither.

    ``parent_process()`` is set only after a spawned child has imported the main module;
    ``_inheriting`` is multiprocessing's own mark of that import.
    """
    for name in ("multiprocessing.process", "multiprocess.process"):
        process = sys.modules.get(name)
        current = getattr(process, "current_process", None)
        if process is None or current is None:  # or its import is still running
            continue
        if getattr(current(), "_inheriting", False) or process.parent_process() is not None:
            return True
    return False
