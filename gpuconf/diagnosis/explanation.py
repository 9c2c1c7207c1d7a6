"""A log's bytes or an exception -> Diagnosis: everything below, in order."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping

from gpuconf.diagnosis.diagnosis import Diagnosis, Evidence, Facts
from gpuconf.diagnosis.facts.allocations import AllocationReader
from gpuconf.diagnosis.facts.card import Card, CardReader
from gpuconf.diagnosis.facts.details import batch_size_in, details_in
from gpuconf.diagnosis.facts.dump import Dump, DumpReader
from gpuconf.diagnosis.facts.framework import FrameworkReader
from gpuconf.diagnosis.facts.refusal import request_of
from gpuconf.diagnosis.facts.user_code import FrameReader
from gpuconf.diagnosis.facts.versions import VersionReader
from gpuconf.diagnosis.memory_map import looks_like_memory_map, read_memory_map
from gpuconf.diagnosis.outcome import Outcome
from gpuconf.diagnosis.proposals import proposals_for
from gpuconf.diagnosis.reading.notebook import printed_by_cells
from gpuconf.diagnosis.reading.stream import LogReader, Watcher
from gpuconf.diagnosis.refinement import refined_causes
from gpuconf.diagnosis.rules import all_rules
from gpuconf.diagnosis.sightings import Sighting, Sightings
from gpuconf.diagnosis.verdict import Verdict, judge


def explain(exc_or_text: BaseException | str | bytes) -> Diagnosis:
    """Say why a run failed: from an exception, or from what it printed.

    An exception is read with its traceback and those it came of; nothing is kept of it.  Text
    may be a log of any length, a notebook's JSON, or the bytes of either.  Raises TypeError for
    anything else.
    """
    if isinstance(exc_or_text, BaseException):
        exc_or_text = "".join(traceback.format_exception(exc_or_text))
    if isinstance(exc_or_text, str):
        exc_or_text = exc_or_text.encode("utf-8", "replace")
    if not isinstance(exc_or_text, bytes):
        given = type(exc_or_text).__name__
        raise TypeError(
            f"explain() takes an exception or a log's text, not {given}; of a file, "
            'give its bytes: open("train.log", "rb").read()'
        )
    if looks_like_memory_map(exc_or_text):
        return _of_memory_map(exc_or_text)
    return explain_chunks([printed_by_cells(exc_or_text) or exc_or_text])


def explain_chunks(chunks: Iterable[bytes]) -> Diagnosis:
    """`explain` for a log in pieces, of which no more than one is held at a time."""
    reading = _Reading()
    reading.reader.read(chunks)
    return reading.diagnosis()


def _of_memory_map(data: bytes) -> Diagnosis:
    """What TF_BFC_MEMORY_DUMP left: TensorFlow writes it when a tensor is refused."""
    facts = Facts(dump=read_memory_map(data))
    means = "TensorFlow writes this file when its allocator has refused a tensor"
    evidence = Evidence(1, f"dump of {facts.dump.allocator if facts.dump else ''}", means, None, 1)
    changes = proposals_for("oom-device-tensor", "failure", facts)
    return Diagnosis("oom-device-tensor", "failure", (), (evidence,), (), (), facts, changes)


class _Reading:
    """All who watch a log, and what they saw."""

    def __init__(self) -> None:
        self.outcome, self.dumps, self.frames = Outcome(), DumpReader(), FrameReader()
        self.cards, self.versions, self.tables = CardReader(), VersionReader(), AllocationReader()
        self.frameworks = FrameworkReader()
        self.sightings = Sightings(all_rules())
        watchers: list[Watcher] = [self.outcome, self.frames, self.cards]
        watchers += [self.versions, self.tables, self.frameworks, self.sightings]
        self.reader = LogReader(watchers, (self.sightings, self.frames, self.outcome), self.dumps)

    def diagnosis(self) -> Diagnosis:
        """What all of it means."""
        dump, card, found = self.dumps.dump(), self.cards.card(), self.sightings.found
        refined = refined_causes(found, self.outcome, dump, card)
        verdict = judge(found, self.outcome, self.reader.last, refined)
        facts = self._facts(verdict, dump, card)
        return Diagnosis(
            verdict.cause,
            verdict.severity,
            verdict.also,
            _evidence(verdict.shown_by, refined),
            _evidence(verdict.consequences, refined),
            _evidence(verdict.harmless, refined),
            facts,
            proposals_for(verdict.cause, verdict.severity, facts),
            self.reader.line_count,
        )

    def _facts(self, verdict: Verdict, dump: Dump | None, card: Card | None) -> Facts:
        told = [excerpt for sighting in verdict.shown_by for excerpt in sighting.excerpts]
        texts = [excerpt.text for excerpt in told]
        if verdict.raised is not None:  # it names the operation, if nothing before did
            texts.insert(0, verdict.raised.line.text)
        lines = [excerpt.line.text for excerpt in told]
        numbers = [each.number for each in reversed([excerpt.line for excerpt in told])]
        if verdict.raised is not None:
            numbers = [verdict.raised.line.number, *numbers]
        return Facts(
            request=request_of(verdict.cause, lines, texts, dump),
            card=card,
            dump=dump,
            allocations=self.tables.allocations(),
            batch_size=batch_size_in(self.frames.codes()),
            user_code=self.frames.user_frame(numbers),
            exception=_said(verdict),
            cut_off=verdict.cut_off.text.strip()[:300] if verdict.cut_off is not None else None,
            framework=self.frameworks.framework([*lines, _said(verdict) or ""]),
            on_windows=self.frameworks.on_windows,
            versions=self.versions.found,
            details=details_in(texts),
        )


def _said(verdict: Verdict) -> str | None:
    if verdict.raised is None:
        return None
    message = verdict.raised.message
    return f"{verdict.raised.kind}: {message}" if message else verdict.raised.kind


def _evidence(sightings: Iterable[Sighting], refined: Mapping[str, str]) -> tuple[Evidence, ...]:
    return tuple(
        Evidence(
            each.first_number,
            each.first[0].line.text.strip()[:1000],
            each.rule.means,
            refined.get(each.rule.id) or each.rule.cause,
            each.count,
            each.rule.generic,
        )
        for each in sightings
    )
