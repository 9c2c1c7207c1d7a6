"""The errors that gpuconf raises on purpose, and the exit code of a command for each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

from gpuconf.basics.terminal import is_debugging, to_paste

_P = ParamSpec("_P")
_R = TypeVar("_R")


class GpuconfError(Exception):
    """The base of every error that gpuconf raises on purpose.

    The message states what happened, the value seen and the rule; ``hint`` says what to do next, if
    possible with a command to run.  ``str(error)`` contains both, so a traceback at ``import
    gpuconf.auto`` is enough to act on.  ``command`` is the command alone, if a single command fixes
    the problem.
    """

    exit_code = 1

    def __init__(
        self, message: str, *, hint: str | None = None, command: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint and to_paste(hint)
        self.command = command

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message

    def as_dict(self) -> dict[str, Any]:
        """Return the error as plain data, for ``--json``."""
        return {"type": type(self).__name__, "message": self.message, "hint": self.hint}


class ProfileError(GpuconfError, ValueError):
    """A profile breaks a rule.

    ``file`` is the path, or None for values given in code.  ``line`` and ``column`` count from 1.
    ``key`` is the dotted path of the offending key, such as ``memory.keep_free``.
    """

    exit_code = 2

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        command: str | None = None,
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
        key: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint, command=command)
        self.file = file
        self.line = line
        self.column = column
        self.key = key

    @property
    def location(self) -> str:
        """``file:line:column``, as far as known, so that editors can jump to it."""
        parts = [self.file, self.line, self.column]
        return ":".join(str(part) for part in parts if part is not None)

    def __str__(self) -> str:
        text = super().__str__()
        return f"{self.location}: {text}" if self.location else text

    def as_dict(self) -> dict[str, Any]:
        where = {"file": self.file, "line": self.line, "column": self.column, "key": self.key}
        return {**super().as_dict(), **where}


class ProfileNotFoundError(ProfileError):
    """There is no profile with that name, or no file at that path."""


class UsageError(GpuconfError):
    """The arguments of a command are invalid or conflict."""

    exit_code = 2


class TooLateError(GpuconfError, RuntimeError):
    """The framework has already created its GPU devices; a limit set now would have no effect."""


class ShortageError(GpuconfError, RuntimeError):
    """A GPU has less free memory than the profile requests.

    ``shortage`` is a short description of what is missing. ``wait_s`` is the number of seconds that
    the profile allows for waiting; None if it forbids waiting or if waiting cannot help.
    ``held_by`` says who is using the GPU, and ``restart`` who should use gpuconf; "" if unknown.
    ``wanted`` maps the UUIDs of acceptable GPUs to the minimum bytes to lease, 0 if there is never
    enough.
    """

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        shortage: str | None = None,
        wait_s: float | None = None,
        held_by: str = "",
        restart: str = "",
        wanted: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.shortage = shortage
        self.wait_s = wait_s
        self.held_by = held_by
        self.restart = restart
        self.wanted = dict(wanted or {})


class IsolatedProcessError(GpuconfError, RuntimeError):
    """The process of an isolated function ended without a result, or took too long."""


class OriginalTraceback(Exception):  # noqa: N818  # the name is read above a traceback
    """The traceback of an exception in an isolated process; the cause of the one raised here."""

    def __str__(self) -> str:
        return f"\n{self.args[0].rstrip()}"


class MissingDependencyError(GpuconfError, ImportError):
    """A library that this feature needs is not installed."""

    exit_code = 4


class BackendError(GpuconfError, RuntimeError):
    """A framework rejected a setting, or accepted it and did something else."""


def without_frames(error: GpuconfError) -> GpuconfError:
    """``error`` without gpuconf's internal frames, which ``GPUCONF_LOG=debug`` keeps."""
    return error if is_debugging() else error.with_traceback(None)


def with_short_tracebacks(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Wrap ``function`` so that gpuconf errors leave it without gpuconf's internal frames.

    The message and the line that called the function are enough for a user error.
    """

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except GpuconfError as error:
            raise without_frames(error) from None

    return called
