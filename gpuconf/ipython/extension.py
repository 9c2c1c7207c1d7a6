"""%load_ext and %unload_ext: the magic, and the check of each failed cell."""

from __future__ import annotations

from typing import Any

from gpuconf.ipython.failures import Failures
from gpuconf.ipython.magic import NAME, GpuconfMagic

# By shell: a cell with %load_ext may run many times, but the hook is registered once.
_loaded: dict[int, Failures] = {}


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext gpuconf``."""
    if id(shell) in _loaded:
        return
    failures = Failures(shell)
    magic = GpuconfMagic(shell, failures)
    shell.register_magic_function(magic.run, "line", NAME)
    shell.register_magic_function(magic.run_cell, "cell", NAME)
    shell.events.register("post_run_cell", failures.after_cell)
    _loaded[id(shell)] = failures


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext gpuconf``: remove the magic and the diagnosis."""
    failures = _loaded.pop(id(shell), None)
    if failures is None:
        return
    shell.events.unregister("post_run_cell", failures.after_cell)
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop(NAME, None)
