"""Whether a command can be started; if not, the error and the exit code a shell would use."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping

from gpuconf.errors import UsageError

COMMAND_NOT_FOUND = 127
COMMAND_NOT_RUNNABLE = 126
_HINT = "check the command after --; a shell's own words: -- bash -c '…'"


def is_assignment(word: str) -> bool:
    """Whether ``word`` is ``NAME=value``, which a shell accepts only before a command."""
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def cannot_start(name: str, reason: str, code: int = 2, *, hint: str = _HINT) -> UsageError:
    """Build the error for command ``name``; ``code`` is its exit code."""
    error = UsageError(f"cannot start {name!r}: {reason}", hint=hint)
    error.exit_code = code
    return error


def not_found(name: str, *, hint: str = _HINT) -> UsageError:
    """Build the error for a command that does not exist."""
    if is_assignment(name):
        hint = f"put {name} before the whole command line, or env after --: -- env {name} …"
        return cannot_start(name, "it is a variable, not a command", hint=hint)
    return cannot_start(name, "it was not found", COMMAND_NOT_FOUND, hint=hint)


def failed_start(name: str, error: OSError) -> UsageError:
    """Build the error for the kernel's reason for not starting ``name``."""
    if isinstance(error, FileNotFoundError):
        file = shutil.which(name)
        return not_found(name) if file is None else _without_interpreter(name, file)
    if isinstance(error, PermissionError):
        return cannot_start(name, "no permission to execute it", COMMAND_NOT_RUNNABLE)
    return cannot_start(name, error.strerror or str(error), COMMAND_NOT_RUNNABLE)


def _without_interpreter(name: str, file: str) -> UsageError:
    """Build the error for a file that exists but whose interpreter or loader does not."""
    try:
        with open(file, "rb") as script:
            first_line = script.read(4096).partition(b"\n")[0]
    except OSError:  # it may be executed, and not read
        first_line = b""
    if not first_line.startswith(b"#!"):
        return cannot_start(name, "its loader was not found", COMMAND_NOT_RUNNABLE)
    reason, quoted = "the interpreter in its first line was not found", shlex.quote(file)
    hint = f"head -n 1 {quoted}"
    if first_line.endswith(b"\r"):
        reason += ": the file has Windows line endings"
        hint = f"sed -i 's/\\r$//' {quoted}"
    return cannot_start(name, reason, COMMAND_NOT_RUNNABLE, hint=hint)


def find_command(name: str, environ: Mapping[str, str]) -> str:
    """Return the file that ``name`` starts; raise UsageError with exit code 127 or 126 if none."""
    path = environ.get("PATH", os.defpath)
    found = shutil.which(name, path=path)
    if found is not None:
        return found
    if os.path.isdir(name) and os.sep in name:
        raise cannot_start(name, "it is a folder", COMMAND_NOT_RUNNABLE)
    is_script = os.path.isfile(name)
    hint = f"start it with its Python: -- python {shlex.quote(name)}" if is_script else _HINT
    if (is_script and os.sep in name) or shutil.which(name, mode=os.F_OK, path=path) is not None:
        raise cannot_start(name, "no permission to execute it", COMMAND_NOT_RUNNABLE, hint=hint)
    raise not_found(name, hint=hint)
