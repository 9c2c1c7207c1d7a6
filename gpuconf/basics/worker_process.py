"""Detect whether this process is a pool worker."""

from __future__ import annotations

import sys


def is_worker() -> bool:
    """Whether multiprocessing or multiprocess started this process; imports neither.

    ``parent_process()`` is set only after a spawned child has imported the main module; during that
    import, multiprocessing sets its own ``_inheriting``.
    """
    for name in ("multiprocessing.process", "multiprocess.process"):
        process = sys.modules.get(name)
        current = getattr(process, "current_process", None)
        if process is None or current is None:  # or it is still being imported
            continue
        if getattr(current(), "_inheriting", False) or process.parent_process() is not None:
            return True
    return False
