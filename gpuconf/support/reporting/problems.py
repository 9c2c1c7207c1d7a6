"""Errors in the form that ``--json`` prints."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.json_shape import FromOne
from gpuconf.errors import GpuconfError, ProfileError


class Bug(NamedTuple):
    """A bug in gpuconf."""

    type: str
    """The error's class."""
    message: str
    """Python's error message."""


class ErrorProblem(NamedTuple):
    """A gpuconf error that is not about a profile."""

    type: str
    """The error's class."""
    message: str
    """What happened, the value, and the rule."""
    hint: str | None
    """What to do next."""


class ProfileProblem(NamedTuple):
    """An error in a profile."""

    type: str
    """The error's class."""
    message: str
    """What happened, the value, and the rule."""
    hint: str | None
    """What to do next."""
    file: str | None
    """The profile's path."""
    line: FromOne | None
    """The line, from 1."""
    column: FromOne | None
    """The column, from 1."""
    key: str | None
    """The key at fault, for example memory.keep_free."""


class ErrorDocument(NamedTuple):
    """The command failed."""

    error: ErrorProblem | ProfileProblem | Bug
    """The error, or the bug."""


def problem_of(error: GpuconfError) -> ErrorProblem | ProfileProblem:
    """An error in JSON form."""
    problem = ProfileProblem if isinstance(error, ProfileError) else ErrorProblem
    return problem(**error.as_dict())
