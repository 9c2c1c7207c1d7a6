"""Decides which error in a log is the root cause, and how severe it is.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gpuconf.basics.units import GIB
from gpuconf.support.failures.causes import CAUSES, NOT_GPU, Severity
from gpuconf.support.failures.log.watchers import LogLine
from gpuconf.support.failures.matches import RuleMatch
from gpuconf.support.failures.outcome import OutcomeWatcher, Raised, speaks_of_gpus
from gpuconf.support.failures.rules import Level

# A single redrawn progress bar is not progress.
_LINES_OF_PROGRESS = 2
_NOT_RAISED_IN_ANGER = ("KeyboardInterrupt", "OutOfRangeError", "StopIteration")
_BIG_BYTES = 4 * GIB
# Causes that cannot occur without a GPU.
_NEED_A_CARD = {
    "oom-device-tensor", "oom-device-startup", "whole-array-copied", "fragmentation", "torch-oom",
    "jax-oom",
}  # fmt: skip
# An exception's line is at most this far below the code that raises it and quotes the message.
_BELOW_A_RAISE = 40
# A line that its program marks as a warning or a note.
_SOFT = re.compile(
    r"(?:^|\s)[WI] [.\w]\S{0,140}\.(?:cc|cpp|h|py):\d{1,9}\]|^\W{0,9}[WI]\d{4} [\d:.]{1,40}\s"
    r"|\b(?:User|Runtime)?Warning:|\bWARNING\b|Unable to initialize backend|\bINFO\b"
)


class LogVerdict(NamedTuple):
    """The root cause, its severity, further causes in order, and the lines that show the root.

    ``harmless`` holds the harmless warnings; ``raised`` is the exception that ended the run, and
    ``cut_off`` the line in which a shell or a C++ program reports that the run was killed.
    """

    cause: str
    severity: Severity
    also: tuple[str, ...]
    shown_by: tuple[RuleMatch, ...]
    consequences: tuple[RuleMatch, ...]
    harmless: tuple[RuleMatch, ...]
    raised: Raised | None
    cut_off: LogLine | None


def judge(
    found: Mapping[str, RuleMatch],
    outcome: OutcomeWatcher,
    last: LogLine,
    refined: Mapping[str, str] | None = None,
) -> LogVerdict:
    """Judge the rules that a log matched; ``refined`` overrides the causes of some rules, by id."""
    return _Judge(found, outcome, last, refined or {}).verdict()


class _Judge:
    def __init__(
        self,
        found: Mapping[str, RuleMatch],
        outcome: OutcomeWatcher,
        last: LogLine,
        refined: Mapping[str, str],
    ) -> None:
        self._outcome, self._last, self._refined = outcome, last, refined
        self._all = sorted(found.values(), key=lambda each: each.first_number)
        self._failing = self._failures()
        ended = [each for each in outcome.raised if each.name not in _NOT_RAISED_IN_ANGER]
        self._raised = ended[-1] if ended else None

    def verdict(self) -> LogVerdict:
        """The first that applies: a failure, a fallback to the CPU, a warning, nothing."""
        if self._failing:
            root = self._root(self._candidates())
            return self._verdict(root, CAUSES[self._cause(root)].severity)
        fallbacks = self._of_level("fallback")
        stranger = self._raised is not None and not self._goes_on_below(self._raised.line)
        if fallbacks:
            root = self._root(fallbacks)
            if not stranger:
                return self._verdict(root, "silent-cpu-fallback")
            if speaks_of_gpus(self._raised.message if self._raised else ""):
                return self._verdict(root, "failure")
        mild = self._of_level("error", "ladder", "warning")
        if mild and not stranger:
            return self._verdict(self._root(mild), "warning-only")
        return self._verdict(None, "not-gpu")

    def _ended_in(self, lines: Sequence[LogLine]) -> bool:
        """Whether one of the lines is itself the end of the program."""
        ends = {line.number for line in self._outcome.cut_off}
        return any(line.number in ends for line in lines)

    def _was_caught(self, lines: Sequence[LogLine]) -> bool:
        """Whether a message appears without its exception, and the run continued."""
        if self._outcome.has_traceback and not self._outcome.raised:
            return False  # the end of the traceback is missing, or part of a sentence
        last = lines[-1].number
        near = range(lines[0].number, last + _BELOW_A_RAISE)
        if any(each.line.number in near for each in self._outcome.raised):
            return False
        return self._last.number > last

    def _failures(self) -> list[RuleMatch]:
        sure = [each for each in self._of_level("error") if not self._survived(each)]
        ladders = [each for each in self._of_level("ladder") if self._ladder_failed(each, sure)]
        big = [each for each in self._of_level("big-allocation") if self._was_last_word(each)]
        return sorted([*sure, *ladders, *big], key=lambda each: each.first_number)

    def _survived(self, match: RuleMatch) -> bool:
        return not match.rule.fatal and self._goes_on_below(match.last.line)

    def _ladder_failed(self, ladder: RuleMatch, sure: Iterable[RuleMatch]) -> bool:
        """Whether the retry with less memory failed too: the log ends there, or failures follow."""
        number = ladder.last.line.number
        if self._last.number == number + 1 and "failed to alloc" in self._last.text:
            number += 1  # one more refusal, whose line is cut
        if self._goes_on_below(ladder.last.line):
            return False
        return (
            self._last.number <= number
            or any(each.last.line.number > number for each in sure)
            or any(line.number > number for line in self._outcome.cut_off)
        )

    def _was_last_word(self, match: RuleMatch) -> bool:
        sizes = re.findall(r"Allocation of (\d{1,19}) exceeds", match.last.line.text)
        if not sizes or int(sizes[-1]) < _BIG_BYTES:
            return False
        return self._last.number <= match.last.line.number

    def _candidates(self) -> list[RuleMatch]:
        """The failures that name a specific cause, and fallbacks that explain a failure."""
        named = [each for each in self._failing if not each.rule.generic] or self._failing
        causes = {self._cause(each) for each in self._failing}
        roots = [
            each
            for each in self._all
            if (self._level(each) == "fallback" or each.rule.caught is not None)
            if not each.rule.generic and CAUSES[self._cause(each)].explains & causes
        ]
        return sorted([*named, *roots], key=lambda each: each.first_number)

    def _root(self, candidates: list[RuleMatch]) -> RuleMatch:
        causes = {self._cause(each) for each in candidates}
        if causes & _NEED_A_CARD or self._outcome.has_gpu:  # proves that there is a GPU
            candidates = [
                each for each in candidates if self._cause(each) != "no-device"
            ] or candidates
        explained = {
            cause
            for cause in causes
            if any(cause in CAUSES[other].explains for other in causes - {cause})
        }
        roots = [each for each in candidates if self._cause(each) not in explained] or candidates
        order = list(CAUSES)
        return min(
            roots,
            key=lambda each: (
                each.rule.generic,
                each.first_number,
                order.index(self._cause(each)),
            ),
        )

    def _verdict(self, root: RuleMatch | None, severity: Severity) -> LogVerdict:
        cause = NOT_GPU if root is None else self._cause(root)
        matches = [each for each in self._all if self._level(each) not in ("harmless", "hint")]
        matches = [each for each in matches if each.rule.level != "big-allocation" or each is root]
        others = [self._cause(each) for each in matches if self._cause(each) != cause]
        return LogVerdict(
            cause,
            severity,
            tuple(dict.fromkeys(others)),
            tuple(each for each in matches if self._cause(each) == cause),
            tuple(each for each in matches if self._cause(each) != cause),
            tuple(each for each in self._all if each.rule.level == "harmless"),
            self._raised,
            self._outcome.cut_off[-1] if self._outcome.cut_off else None,
        )

    def _cause(self, match: RuleMatch) -> str:
        return self._refined.get(match.rule.id) or match.rule.cause or NOT_GPU

    def _of_level(self, *levels: str) -> list[RuleMatch]:
        return [each for each in self._all if self._level(each) in levels]

    def _level(self, match: RuleMatch) -> Level:
        rule, lines = match.rule, [excerpt.line for excerpt in match.excerpts]
        if rule.beside_gpu is not None and self._outcome.has_gpu:
            return rule.beside_gpu
        if rule.level == "fallback" and self._ended_in(lines):
            return "error"
        if rule.caught is not None and self._was_caught(lines):
            return rule.caught
        if rule.softly is None:
            return rule.level
        if all(_SOFT.search(line.text) for line in lines):
            return rule.softly
        return rule.level

    def _goes_on_below(self, line: LogLine) -> bool:
        return self._outcome.progress_after(line.number) >= _LINES_OF_PROGRESS
