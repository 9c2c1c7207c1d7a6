"""Print a diagnosis below the traceback that ends a script, with ``GPUCONF_EXPLAIN=1``.

``gpuconf.auto`` loads this module on request; it loads the diagnosis only when an exception occurs.
For notebooks see :mod:`gpuconf.ipython`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from gpuconf.basics.environment import is_yes, switched_off
from gpuconf.basics.terminal import debug, tell_below_traceback
from gpuconf.commands.explain import Diagnosis


def install_if_asked(environ: Mapping[str, str] = os.environ) -> bool:
    """Explain the exception that ends this program, if ``GPUCONF_EXPLAIN`` is on.

    Raises UsageError for a value that is neither yes nor no.
    """
    if switched_off(environ) is not None or not is_yes("GPUCONF_EXPLAIN", environ):
        return False
    tell_below_traceback("explain", tell)
    return True


def tell(error: BaseException) -> None:
    """Write the diagnosis of an exception to stderr, if it is of a kind that gpuconf explains.

    Never raises: the program is already failing.
    """
    if sys.stderr is None:  # print() would write to stdout instead
        return
    try:
        diagnosis = diagnosis_of(error)
        if diagnosis is not None and diagnosis.severity == "failure":
            from gpuconf.commands.explain.text import lines_of

            report = "\n".join(lines_of(diagnosis, source=None))
            print(f"\ngpuconf: {report}", file=sys.stderr, flush=True)
    except (Exception, KeyboardInterrupt) as trouble:
        debug(f"the exception could not be explained: {trouble!r}")


def diagnosis_of(error: BaseException) -> Diagnosis | None:
    """Diagnose an exception; return None for gpuconf's errors, which already explain themselves."""
    from gpuconf.errors import GpuconfError

    if isinstance(error, (GpuconfError, KeyboardInterrupt, SystemExit, GeneratorExit)):
        return None
    from gpuconf.commands.explain import explain

    return explain(error)
