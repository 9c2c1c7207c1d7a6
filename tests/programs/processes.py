"""Fresh Python processes for tests of what is global: the environment, imports, commands."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent

from tests.hardware import standin

# The fixture ``nvml``: a scenario or machine to the variables that make a new process see it.
Nvml = Callable[[str | standin.Machine], dict[str, str]]

# What would steer gpuconf or a framework in the process that is started.
_STEERING = ("GPUCONF_", "CUDA_", "TF_", "XLA_", "PYTORCH_", "XDG_", "KERAS_")
_OTHERS = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM", "PYTHONWARNINGS")


def clean_environment(home: Path, more: Mapping[str, str] | None = None) -> dict[str, str]:
    """This environment without what steers gpuconf, at home in ``home``, plus ``more``."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(_STEERING) and name not in _OTHERS
    }
    leases = {"GPUCONF_LEASES": str(home / "leases")}  # not those of this machine
    return {**kept, **leases, "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1", **(more or {})}


def run(
    command: Sequence[str],
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` in ``folder``, its home; no input, both outputs as text."""
    return subprocess.run(
        command,
        cwd=folder,
        env=clean_environment(folder, environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=timeout_s,
    )


def interruptible(command: Sequence[str]) -> list[str]:
    """``command`` such that SIGINT and SIGHUP end it, also where a shell or nohup ignores them."""
    reset = (
        "import os, signal, sys\n"
        "for each in (signal.SIGINT, signal.SIGHUP): signal.signal(each, signal.SIG_DFL)\n"
    )
    return [sys.executable, "-c", f"{reset}os.execv(sys.argv[1], sys.argv[1:])", *command]


def run_python(
    program: str,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = 60,
) -> str:
    """Run ``program`` from a file in ``folder``, warnings being errors; return its stdout.

    The folder is the first on ``sys.path``.  Anything but exit code 0 fails the test.
    """
    file = folder / "program.py"
    file.write_text(dedent(program), encoding="utf-8")
    command = [sys.executable, "-W", "error", str(file)]
    done = run(command, folder, environ=environ, timeout_s=timeout_s)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def finding(folder: Path) -> dict[str, str]:
    """The variable with which a program finds the modules in ``folder``, and those of before."""
    before = [path for path in (os.environ.get("PYTHONPATH"),) if path]
    return {"PYTHONPATH": os.pathsep.join([str(folder), *before])}


def write_package(folder: Path, files: Mapping[str, str]) -> None:
    """Write ``files``, by path below ``folder``."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
