"""The ``gpuconf`` command and ``python -m gpuconf``; ^C exits quietly from here on.

The ^C handler is installed before any import, because the imports take about 50 ms.
"""

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line and exit with its code."""
    ordinary = signal.getsignal(signal.SIGINT)
    if ordinary is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from gpuconf.commands.cli.main import main

    if ordinary is signal.default_int_handler:
        signal.signal(signal.SIGINT, ordinary)
    sys.exit(main(sys.argv[1:]))


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Exit at once: nothing has started yet, and a traceback from an import would not help."""
    os._exit(130)


if __name__ == "__main__":
    run()
