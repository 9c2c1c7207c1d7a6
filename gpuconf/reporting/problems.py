"""Errors as ``--json`` prints them."""

from __future__ import annotations

from gpuconf.errors import GpuconfError, ProfileError
from gpuconf.json_shape import FromOne
from gpuconf.records import NamedTuple


class Bug(NamedTuple):
    """A bug in gpuconf."""

    type: str
    """The class of the error."""
    message: str
    """What Python says of it."""


class ErrorProblem(NamedTuple):
    """What was refused."""

    type: str
    """The class of the error."""
    message: str
    """What happened, the value seen and the rule."""
    hint: str | None
    """What to do next."""


class ProfileProblem(NamedTuple):
    """What a profile was refused for."""

    type: str
    """The class of the error."""
    message: str
    """What happened, the value seen and the rule."""
    hint: str | None
    """What to do next."""
    file: str | None
    """The profile's path."""
    line: FromOne | None
    """The line, from 1."""
    column: FromOne | None
    """The column, from 1."""
    key: str | None
    """The key at fault, as memory.keep_free."""


class ErrorDocument(NamedTuple):
    """The command failed."""

    error: ErrorProblem | ProfileProblem | Bug
    """What was refused, or the bug."""


def problem_of(error: GpuconfError) -> ErrorProblem | ProfileProblem:
    """What an error says."""
    problem = ProfileProblem if isinstance(error, ProfileError) else ErrorProblem
    return problem(**error.as_dict())
