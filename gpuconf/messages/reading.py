"""What was read from a log or an exception, as values."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.json_shape import Count, FromOne
from gpuconf.messages.causes import CauseId, Severity
from gpuconf.messages.facts.allocations import Allocations
from gpuconf.messages.facts.card import LoggedCard
from gpuconf.messages.facts.details import Details
from gpuconf.messages.facts.dump import Dump
from gpuconf.messages.facts.program import Sign
from gpuconf.messages.facts.software import Framework
from gpuconf.messages.facts.tensor import MemoryRequest
from gpuconf.messages.facts.user_code import Frame


class Evidence(NamedTuple):
    """A line of the log, the first of those that are alike."""

    line: FromOne
    """Its number, from 1."""
    text: str
    """The line, at most 1000 characters of it."""
    means: str
    """What it means, for people."""
    cause: CauseId | None
    """The cause that it shows; None: none by itself."""
    lines: FromOne
    """How many lines are alike."""
    generic: bool = False
    """Whether it says less than the other lines of its cause."""


class LogFacts(NamedTuple):
    """What the log says beyond the cause; None and empty is what it does not say."""

    request: MemoryRequest = MemoryRequest()
    """What was asked for, and refused."""
    card: LoggedCard | None = None
    """The GPU."""
    dump: Dump | None = None
    """The allocator's state when it refused."""
    allocations: Allocations | None = None
    """The table of report_tensor_allocations_upon_oom."""
    batch_size: Count | None = None
    """The batch_size= in a line of code of the traceback."""
    user_code: Frame | None = None
    """The user's own line in the traceback."""
    exception: str | None = None
    """What ended the run, as 'KeyError: 3'."""
    cut_off: str | None = None
    """The line of a shell or a C++ program that says that the run was ended."""
    framework: Framework | None = None
    """The framework of the lines that show the cause, else the one named most often."""
    on_windows: bool = False
    """Whether the log has paths or libraries of Windows."""
    shows_old_tensorflow: bool = False
    """Whether it has paths or calls of a TensorFlow below 2.15."""
    signs: tuple[Sign, ...] = ()
    """What kind of program it is, and which settings the log shows as set."""
    versions: dict[str, str] = {}  # noqa: RUF012  # never changed
    """Versions by python, tensorflow, keras, torch, jax, jaxlib, cuda, cudnn."""
    details: Details = {}  # noqa: RUF012  # likewise
    """Small facts in the lines of the cause."""


class Reading(NamedTuple):
    """What a log or an exception says: the cause, how bad it is, and the lines that show it.

    ``cause`` is one of the ids in `gpuconf.messages.causes.CAUSES`, ``also`` are further ones, in
    the order of the log.  ``evidence`` are the lines that show the cause, ``consequences`` those of
    follow-up and unrelated errors, ``notes`` those that look bad and are harmless.
    """

    cause: str
    severity: Severity
    also: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[Evidence, ...] = ()
    notes: tuple[Evidence, ...] = ()
    facts: LogFacts = LogFacts()
    line_count: int = 0
