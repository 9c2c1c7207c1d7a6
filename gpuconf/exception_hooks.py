"""A diagnosis under the traceback: in a script by ``GPUCONF_EXPLAIN=1``, in IPython by %load_ext.

``gpuconf.auto`` loads this file on request, and this file the diagnosis once there is an exception.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from gpuconf.environ import switched_off

TYPE_CHECKING = False  # typing itself would cost milliseconds
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    Hook = Callable[[type[BaseException], BaseException, TracebackType | None], object]

_OFF = ("", "0", "false", "no", "off")
# A cell with %load_ext may run many times; the function is registered once.
_watching: dict[int, Callable[[Any], None]] = {}


def install_if_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Explain the exception that ends this program, where ``GPUCONF_EXPLAIN`` asks for it."""
    if environ.get("GPUCONF_EXPLAIN", "").strip().lower() in _OFF:
        return False
    if switched_off(environ) is not None:
        return False
    if getattr(sys.excepthook, "explains", False):
        return True
    sys.excepthook = _explaining(sys.excepthook)
    return True


def _explaining(before: Hook) -> Hook:
    """A hook that does what the one before did, and then explains."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            before(kind, error, trace)
        finally:
            tell(error.with_traceback(trace))

    hook.explains = True  # type: ignore[attr-defined]  # so that it is installed once
    return hook


def tell(error: BaseException) -> None:
    """Write the diagnosis of an exception to stderr, if it is of a kind that we explain.

    Never raises: the program is failing already.
    """
    from gpuconf.errors import GpuconfError
    from gpuconf.terminal import debug

    # Our own errors already explain themselves.
    if isinstance(error, (GpuconfError, KeyboardInterrupt, SystemExit, GeneratorExit)):
        return
    if sys.stderr is None:  # which print() would take for stdout
        return
    try:
        from gpuconf.diagnosis import explain
        from gpuconf.diagnosis.text import lines_of

        diagnosis = explain(error)
        if diagnosis.severity == "failure":
            report = "\n".join(lines_of(diagnosis, source=None))
            print(f"\ngpuconf: {report}", file=sys.stderr, flush=True)
    except (Exception, KeyboardInterrupt) as trouble:
        debug(f"the exception could not be explained: {trouble!r}")


def load_ipython_extension(shell: Any) -> None:
    """``%load_ext gpuconf``: below each traceback of a GPU's memory, what it means."""
    if id(shell) in _watching:
        return

    def after_cell(result: Any) -> None:
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, BaseException):
            tell(error)

    shell.events.register("post_run_cell", after_cell)
    _watching[id(shell)] = after_cell


def unload_ipython_extension(shell: Any) -> None:
    """``%unload_ext gpuconf``: stop explaining."""
    after_cell = _watching.pop(id(shell), None)
    if after_cell is not None:
        shell.events.unregister("post_run_cell", after_cell)
