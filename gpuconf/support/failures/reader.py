"""A log's bytes or an exception -> Reading, with all watchers in order.  Pure."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping

from gpuconf.errors import OriginalTraceback
from gpuconf.support.failures.causes import CAUSES
from gpuconf.support.failures.facts.allocations import AllocationReader
from gpuconf.support.failures.facts.card import CardReader, LoggedCard
from gpuconf.support.failures.facts.details import batch_size_in, details_in
from gpuconf.support.failures.facts.dump import Dump, DumpReader
from gpuconf.support.failures.facts.program import ProgramReader
from gpuconf.support.failures.facts.software import SoftwareReader
from gpuconf.support.failures.facts.tensor import request_of
from gpuconf.support.failures.facts.user_code import FrameReader
from gpuconf.support.failures.log.notebook import printed_by_cells
from gpuconf.support.failures.log.stream import LogReader
from gpuconf.support.failures.log.watchers import Watcher
from gpuconf.support.failures.matches import RuleMatch, RuleMatches
from gpuconf.support.failures.outcome import OutcomeWatcher
from gpuconf.support.failures.reading import Evidence, LogFacts, Reading
from gpuconf.support.failures.refinement import refined_causes
from gpuconf.support.failures.rules import all_rules
from gpuconf.support.failures.verdict import LogVerdict, judge

_END_OF_LOG = 64 * 1024


def read(exc_or_text: BaseException | str | bytes) -> Reading:
    """Diagnose a failed run from an exception or from its output.

    An exception is read with its traceback and its causes; no reference to it is kept.  Text may be
    a log of any length, a notebook's JSON, or the bytes of either.
    """
    if isinstance(exc_or_text, BaseException):
        original = exc_or_text.__cause__
        if isinstance(original, OriginalTraceback):  # it has the lines of the user's function
            exc_or_text = str(original)
        else:
            exc_or_text = "".join(traceback.format_exception(exc_or_text))
    if isinstance(exc_or_text, str):
        exc_or_text = exc_or_text.encode("utf-8", "replace")
    return read_chunks([printed_by_cells(exc_or_text) or exc_or_text])


def read_error(kind: str, message: str, log: str = "") -> Reading:
    """Diagnose an exception from its class and text, and from the log of its process.

    The exception alone is decisive if it names the cause, because a log is full of retries that the
    process survived. The end of the log is added if the exception names no cause, or only refers to
    the log: "DNN library initialization failed. Look at the errors above for more details."
    """
    text = f"{kind}: {message}"
    reading = read(text)
    if not log or any(not line.generic for line in reading.evidence):
        return reading
    return read(f"{log[-_END_OF_LOG:]}\n{text}")


def read_chunks(chunks: Iterable[bytes]) -> Reading:
    """`read` for a log in chunks; only one chunk is in memory at a time."""
    reader = _Reader()
    reader.log.read(chunks)
    return reader.reading()


class _Reader:
    """All watchers of a log and their results."""

    def __init__(self) -> None:
        self.outcome, self.dumps, self.frames = OutcomeWatcher(), DumpReader(), FrameReader()
        self.cards, self.software, self.tables = CardReader(), SoftwareReader(), AllocationReader()
        self.matches, self.program = RuleMatches(all_rules()), ProgramReader()
        watchers: list[Watcher] = [self.outcome, self.frames, self.cards]
        watchers += [self.software, self.tables, self.program, self.matches]
        self.log = LogReader(watchers, (self.matches, self.frames, self.outcome), self.dumps)

    def reading(self) -> Reading:
        """The combined result of all watchers."""
        self.matches.exclude_by({each.line.number: each.message for each in self.outcome.raised})
        dump, card, found = self.dumps.dump(), self.cards.card(), self.matches.found
        refined = refined_causes(found, self.outcome, dump, card)
        verdict = judge(found, self.outcome, self.log.last, refined)
        return Reading(
            verdict.cause,
            verdict.severity,
            verdict.also,
            _evidence(verdict.shown_by, refined),
            _evidence(verdict.consequences, refined),
            _evidence(verdict.harmless, refined),
            self._facts(verdict, dump, card),
            self.log.line_count,
        )

    def _facts(self, verdict: LogVerdict, dump: Dump | None, card: LoggedCard | None) -> LogFacts:
        excerpts = [excerpt for match in verdict.shown_by for excerpt in match.excerpts]
        texts = [excerpt.text for excerpt in excerpts]
        if verdict.raised is not None:  # names the operation if no earlier line does
            texts.insert(0, verdict.raised.line.text)
        lines = [excerpt.line.text for excerpt in excerpts]
        numbers = [each.number for each in reversed([excerpt.line for excerpt in excerpts])]
        if verdict.raised is not None:
            numbers = [verdict.raised.line.number, *numbers]
        asked = None if dump is None else dump.requested_bytes
        return LogFacts(
            request=request_of(verdict.cause, lines, texts, asked),
            card=card,
            dump=dump,
            allocations=self.tables.allocations(),
            batch_size=batch_size_in([*self.frames.codes(), *texts]),
            user_code=self.frames.user_frame(numbers),
            exception=_exception(verdict),
            cut_off=verdict.cut_off.text.strip()[:300] if verdict.cut_off is not None else None,
            framework=self.software.framework([*lines, _exception(verdict) or ""]),
            on_windows=self.software.on_windows,
            shows_old_tensorflow=self.software.shows_old_tensorflow,
            signs=self.program.signs(numbers),
            versions=self.software.versions,
            details=details_in(texts),
        )


def _exception(verdict: LogVerdict) -> str | None:
    if verdict.raised is None:
        return None
    message = verdict.raised.message
    return f"{verdict.raised.kind}: {message}" if message else verdict.raised.kind


def _evidence(matches: Iterable[RuleMatch], refined: Mapping[str, str]) -> tuple[Evidence, ...]:
    return tuple(_evidence_of(each, refined) for each in matches)


def _evidence_of(match: RuleMatch, refined: Mapping[str, str]) -> Evidence:
    (number, text), count = match.shown
    cause, means = refined.get(match.rule.id) or match.rule.cause, match.rule.means
    if refined.get(match.rule.id) == "host-oom":  # the rule's own words name the GPU
        means = CAUSES["host-oom"].title
    return Evidence(number, text.strip()[:1000], means, cause, count, match.rule.generic)
