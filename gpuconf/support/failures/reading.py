"""The result of reading a log or an exception, as values."""

from __future__ import annotations

from typing import NamedTuple

from gpuconf.basics.json_shape import Count, FromOne
from gpuconf.support.failures.causes import CauseId, Severity
from gpuconf.support.failures.facts.allocations import Allocations
from gpuconf.support.failures.facts.card import LoggedCard
from gpuconf.support.failures.facts.details import Details
from gpuconf.support.failures.facts.dump import Dump
from gpuconf.support.failures.facts.software import Framework
from gpuconf.support.failures.facts.tensor import MemoryRequest
from gpuconf.support.failures.facts.user_code import Frame


class Evidence(NamedTuple):
    """A line of the log: the first of several similar ones."""

    line: FromOne
    """Its number in the log, from 1."""
    text: str
    """The line, cut to 1000 characters."""
    means: str
    """The explanation, for people."""
    cause: CauseId | None
    """The cause that it shows; None if it shows none by itself."""
    lines: FromOne
    """The number of lines alike."""
    generic: bool = False
    """Whether the cause's other lines are more specific."""


class LogFacts(NamedTuple):
    """Facts in the log other than the cause; None or empty if the log does not state them."""

    request: MemoryRequest = MemoryRequest()
    """The memory request that failed."""
    card: LoggedCard | None = None
    """The GPU."""
    dump: Dump | None = None
    """The allocator's state at the failed request."""
    allocations: Allocations | None = None
    """The table of report_tensor_allocations_upon_oom."""
    batch_size: Count | None = None
    """The batch_size= in the traceback's code."""
    user_code: Frame | None = None
    """The line of user code in the traceback."""
    exception: str | None = None
    """The exception that ended the run, for example 'KeyError: 3'."""
    cut_off: str | None = None
    """The line in which a shell or a C++ program reports that the run was killed."""
    framework: Framework | None = None
    """The framework of the lines that show the cause, otherwise the one named most often."""
    on_windows: bool = False
    """Whether the log has Windows paths or libraries."""
    shows_old_tensorflow: bool = False
    """Whether it has paths or calls of TensorFlow before 2.15."""
    signs: tuple[str, ...] = ()
    """The kind of program, and the settings that the log shows."""
    versions: dict[str, str] = {}  # noqa: RUF012  # never changed
    """Versions of python, tensorflow, keras, torch, jax, jaxlib, cuda, cudnn."""
    details: Details = {}  # noqa: RUF012  # likewise
    """Small facts in the lines of the cause."""


class Reading(NamedTuple):
    """The result of reading a log or an exception: the cause, its severity, and the evidence.

    ``cause`` is one of the ids in `gpuconf.support.failures.causes.CAUSES`; ``also`` lists further
    ones in log order. ``evidence`` holds the lines that show the cause, ``consequences`` the lines
    of follow-up and unrelated errors, and ``notes`` harmless lines that look bad.
    """

    cause: str
    severity: Severity
    also: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    consequences: tuple[Evidence, ...] = ()
    notes: tuple[Evidence, ...] = ()
    facts: LogFacts = LogFacts()
    line_count: int = 0
