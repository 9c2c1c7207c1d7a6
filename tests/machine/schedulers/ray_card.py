"""Drivers of a Ray of their own, on simulated GPUs of 8 GiB whose desktop holds 1 GiB.

The profile keeps 512 MiB of a GPU free, and a context counts 640 MiB.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.commands.cli.commands import BUILT
from tests.frameworks.installed import folder_of
from tests.programs.processes import run

_CARD = ("--total", "8192MiB", "--used", "1024MiB", "--context", "450MiB")
# Ray waits 30 s for its own start, which no option changes.
_SLOW_START = "timed out during startup"
# Now and then, after both actors were ready, its driver waits for their answers and they for its
# calls.  Otherwise it takes 25 s on an idle machine.
_LONGEST_S = 100
_TIMED_OUT = 124  # of timeout(1), which ends the driver, and so Ray's daemons, by SIGTERM


def run_driver(
    folder: Path,
    words: Sequence[str],
    *,
    cards: int = 1,
    lease: bool = True,
    framework: str | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Python with ``words``, once more where Ray did not start in time, or stood still.

    With ``framework``, torch or jax, that is there, and its kernels do nothing.
    """
    profile = folder / "shared.yaml"
    profile.write_text(
        f"extends: shared-desktop\nmemory: {{context: 640MiB, lease: {str(lease).lower()}}}\n"
    )
    variables = {
        **BUILT,  # the kernel bridge, which takes a minute to build
        "RAY_ADDRESS": "local",  # no cluster that another program has left word of
        "RAY_AUTH_MODE": "disabled",
        "RAY_worker_niceness": "0",  # of 15: workers would wait for all other tests
        "RAY_TMPDIR": "/tmp",  # sockets lie in it, whose paths may have 107 bytes
        "GPUCONF_PROFILE": str(profile),
        "LD_PRELOAD": "",  # `skip_waits.c`: Ray's daemons wait 10 s again and again
    }
    if framework is not None:
        paths = [str(folder_of(framework)), os.environ.get("PYTHONPATH", "")]
        variables["PYTHONPATH"] = ":".join(filter(None, paths))
        variables["GPUCONF_SIMCARD_KERNELS"] = "skip"
    simcard = [sys.executable, "-m", "gpuconf.simcard", "run", "--count", str(cards), *_CARD, "--"]
    limited = ["timeout", "--kill-after=20", str(_LONGEST_S)]
    command = [*limited, *simcard, sys.executable, *words]
    done = run(command, folder, environ=variables, timeout_s=600)
    if done.returncode == _TIMED_OUT or (done.returncode != 0 and _SLOW_START in done.stderr):
        done = run(command, folder, environ=variables, timeout_s=600)
    return done
