"""The Python to examine: this one, or another one, which is run to get its package folders.

The other one prints its ``sys.path`` and imports none of its packages, which are then read from
files, like this one's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from gpuconf.commands.doctor.facts import Interpreter
from gpuconf.errors import UsageError

_TIMEOUT_S = 20.0
# Also for Python 2.7, whose virtualenv sets real_prefix.
_ASK = """
import json, sys
prefix = sys.prefix
base = getattr(sys, "real_prefix", getattr(sys, "base_prefix", prefix))
print(json.dumps([sys.executable, list(sys.version_info[:3]), prefix, base, sys.path]))
"""


def this_interpreter() -> Interpreter:
    """The Python that runs gpuconf."""
    return _interpreter(
        [sys.executable, sys.version_info[:3], sys.prefix, sys.base_prefix, sys.path]
    )


def other_interpreter(path: str, *, environ: Mapping[str, str]) -> Interpreter:
    """The Python at ``path``: a file, a command on PATH, or the folder of an environment.

    Raises UsageError if that is not a Python that runs.
    """
    file = os.path.join(path, "bin", "python") if os.path.isdir(path) else path
    command = shutil.which(file, path=environ.get("PATH"))
    if command is None:
        hint = "name a Python, such as $(which python), or the folder of a virtual environment"
        raise UsageError(f"--python {path}: command not found", hint=hint)
    try:
        done = subprocess.run(
            [command, "-c", _ASK],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
        answer = _last_record(done.stdout)
    except (OSError, subprocess.TimeoutExpired):
        answer = None
    if answer is None:
        hint = f"{shlex.quote(command)} -c 'import sys; print(sys.version)'"
        raise UsageError(f"--python {path}: this is not a working Python", hint=hint)
    answer[4] = [each for each in answer[4] if each]  # the current folder, added by -c
    return _interpreter(answer)._replace(is_other=True)


def _last_record(output: str) -> list[Any] | None:
    """The last line that is an answer; a sitecustomize may print other lines."""
    for line in reversed(output.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, list) and len(found) == 5:
            return found
    return None


def _interpreter(answer: Sequence[Any]) -> Interpreter:
    path, version, prefix, base, paths = answer
    kind = None
    if prefix != base:
        kind = "virtual environment"
    elif os.path.isdir(os.path.join(prefix, "conda-meta")):
        kind = "conda environment"
    return Interpreter(path, tuple(version), prefix, kind, tuple(paths))


def python_on_path(environ: Mapping[str, str], ours: Interpreter) -> str | None:
    """The first python on PATH outside the folder of ``ours``; None if there is none."""
    own = os.path.realpath(os.path.dirname(ours.path))
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder and os.path.realpath(folder) != own:
            for name in ("python", "python3"):
                found = shutil.which(name, path=folder)
                if found is not None:
                    return found
    return None
