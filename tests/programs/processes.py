"""Processes for tests of what is global: the environment, imports, commands.

`run`, `run_with` and `run_python` wait for the end of one; `Program`, from the fixture ``start``,
is one that a test exchanges lines with.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.programs.warm import Popen

# The fixture ``nvml``: `standin.environment` in a folder of its own, so a scenario or machine, with
# its logs, to the variables that make a new process see it.
Nvml = Callable[..., dict[str, str]]

# What a program begins with that reports values to its test: `reported` reads them.
REPORT = """\
def report(**values):
    import json
    print("REPORT", json.dumps(values), flush=True)

"""

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
    return run_with(command, clean_environment(folder, environ), folder, timeout_s=timeout_s)


def run_with(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: Path | None = None,
    *,
    timeout_s: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run ``command`` with exactly ``environ``; no input, both outputs as text."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=timeout_s,
    )


def reported(output: str) -> dict[str, Any]:
    """What a program's calls of ``report`` gave, in their order."""
    values: dict[str, Any] = {}
    for line in output.splitlines():
        if line.startswith("REPORT "):
            values.update(json.loads(line.removeprefix("REPORT ")))
    return values


class Program(Popen):
    """A program that a test exchanges lines with; what it writes to stderr is in a file."""

    def __init__(
        self, command: Sequence[str], folder: Path, environ: Mapping[str, str], **options: Any
    ) -> None:
        """Start it in ``folder``, with exactly ``environ``; ``options`` are those of Popen."""
        self._log = folder / f"stderr-{len(list(folder.glob('stderr-*')))}"
        with self._log.open("wb") as errors:
            streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
            super().__init__(
                command, cwd=folder, env=environ, encoding="utf-8", **{**streams, **options}
            )

    @property
    def log(self) -> str:
        """What it has written to stderr so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def write_line(self, text: str = "") -> None:
        """Give it a line of input."""
        assert self.stdin is not None
        self.stdin.write(f"{text}\n")
        self.stdin.flush()

    def read_line(self) -> str:
        """Wait for its next line; AssertionError, with what it wrote to stderr, if none comes."""
        assert self.stdout is not None
        line = self.stdout.readline()
        assert line, f"no line of output; stderr: {self.log}"
        return line.removesuffix("\n")

    def read_values(self) -> dict[str, Any]:
        """Wait for its next line, an object of JSON."""
        return dict(json.loads(self.read_line()))


Start = Callable[..., Program]


def interruptible(command: Sequence[str]) -> list[str]:
    """``command`` such that SIGINT and SIGHUP end it, also where a shell or nohup ignores them."""
    reset = (
        "import os, signal, sys\n"
        "for each in (signal.SIGINT, signal.SIGHUP): signal.signal(each, signal.SIG_DFL)\n"
    )
    return [sys.executable, "-c", f"{reset}os.execv(sys.argv[1], sys.argv[1:])", *command]


def run_python(
    program: str, folder: Path, *, environ: Mapping[str, str] | None = None, timeout_s: float = 60
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


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that is dead but not yet waited for does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


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
