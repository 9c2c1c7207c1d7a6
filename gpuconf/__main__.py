"""The ``gpuconf`` command, and ``python -m gpuconf``: ^C is quiet from here on.

Nothing is imported before ^C is seen to: what follows takes some twentieth of a second.
"""

import os
import signal
import sys
from types import FrameType


def run() -> None:
    """Run the command line's command and exit with its code."""
    ordinary = signal.getsignal(signal.SIGINT)
    if ordinary is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)
    from gpuconf.cli.main import main

    if ordinary is signal.default_int_handler:
        signal.signal(signal.SIGINT, ordinary)
    sys.exit(main(sys.argv[1:]))


def _leave(_number: int, _frame: FrameType | None) -> None:
    """End at once: nothing has been begun, and a traceback of imports says nothing."""
    os._exit(130)


if __name__ == "__main__":
    run()
