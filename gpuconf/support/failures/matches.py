"""Which rules a log's lines match, and where."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuconf.support.failures.log.shapes import PhraseIndex, says, shapes_of
from gpuconf.support.failures.log.watchers import LogLine
from gpuconf.support.failures.rules import Rule

# Messages span several lines; the figures are in the lines below.
FOLLOWING_LINES = 14
_KEPT_EXCERPTS = 6
# A message wrapped by a mail program or a terminal continues in the next lines, unless those begin
# with a time, a file or an exception.
_WRAPPED_LINES = 2
_OF_ITS_OWN = re.compile(r"\.(?:cc|h|py):\d|^\s{0,9}(?:Traceback|File )|^\w{0,99}Error|^\d{4}-\d")


# Typical phrases of people who paste a log.
_PROSE = re.compile(
    r"\bI(?:'m|'ve|'d| (?:am|was|get|got|have|had|try|tried|use|used|run|ran|think|see|saw|do|did"
    r"|don't|want|need|can|could|found|just|also|keep|set|follow|followed|met|meet))\b"
    r"|\b[Mm]y (?:code|script|gpu|GPU|model|machine|computer|program|training|card|error)\b"
    r"|\b(?:the|this|following|same|an) (?:error|issue|problem|exception)\b|\b[Aa]ny ?one\b"
)


def is_prose(text: str) -> bool:
    """Whether a line is a reporter's own sentence, which may quote the log."""
    return _PROSE.search(text[:2000]) is not None


@dataclass
class Excerpt:
    """A line, the ids of the rules that it matches, and the lines below it."""

    line: LogLine
    rules: list[str] = field(default_factory=list)
    following: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The line and those below it."""
        return "\n".join([self.line.text, *self.following])


@dataclass
class RuleMatch:
    """A rule that matched lines of the log: the count, and the first and last few lines."""

    rule: Rule
    count: int = 0
    prose: int = 0
    first: list[Excerpt] = field(default_factory=list)
    latest: list[Excerpt] = field(default_factory=list)

    @property
    def excerpts(self) -> list[Excerpt]:
        """The excerpts kept, in log order."""
        return [*self.first, *self.latest]

    @property
    def shown(self) -> tuple[LogLine, int]:
        """The first line and the number of similar lines; a reporter's prose counts only if
        alone."""
        own = [each.line for each in self.excerpts if not is_prose(each.line.text)]
        return (own[0], self.count - self.prose) if own else (self.first[0].line, self.count)

    @property
    def first_number(self) -> int:
        """The number of the first matching line."""
        return self.first[0].line.number

    @property
    def last(self) -> Excerpt:
        """The last match."""
        return self.excerpts[-1]

    def add(self, excerpt: Excerpt) -> None:
        """Count a match; keep it if it is one of the first or the latest."""
        self.count += 1
        self.prose += is_prose(excerpt.line.text)
        if len(self.first) < _KEPT_EXCERPTS:
            self.first.append(excerpt)
        else:
            self.latest = [*self.latest[-_KEPT_EXCERPTS + 1 :], excerpt]

    def drop(self, excerpt: Excerpt) -> None:
        """Remove an excerpt."""
        self.count -= 1
        self.prose -= is_prose(excerpt.line.text)
        self.first = [each for each in self.first if each is not excerpt]
        self.latest = [each for each in self.latest if each is not excerpt]


class RuleMatches:
    """Watches a log for all rules; ``found`` maps a rule's id to its matches."""

    parts: Sequence[str] = ()

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.phrases: Sequence[str] = [said for rule in rules for said in rule.says]
        self.found: dict[str, RuleMatch] = {}
        self.wants = 0
        self._open: list[Excerpt] = []
        self._said_by = PhraseIndex((said, rule) for rule in rules for said in rule.phrases)

    def see(self, line: LogLine) -> None:
        """Note the rules that a line matches."""
        shape, rules = self._rules_that_say(line.text)
        excerpt = None
        for rule in rules:
            if rule.holds(shape, line.text):
                excerpt = excerpt or Excerpt(line)
                excerpt.rules.append(rule.id)
                self.found.setdefault(rule.id, RuleMatch(rule)).add(excerpt)
        if excerpt is not None:
            self._open = [*self._open[-3:], excerpt]
            self.wants = FOLLOWING_LINES

    def _rules_that_say(self, text: str) -> tuple[bytes, list[Rule]]:
        """A line's words, and the rules that have a phrase in it."""
        words = shapes_of(text.encode("utf-8", "replace")).split()
        said_by = {rule.id: rule for rule in self._said_by.said_in(words)}
        return b" ".join(words), list(said_by.values())

    def follow(self, line: LogLine) -> None:
        """Keep a line below a match."""
        self.wants -= 1
        for excerpt in self._open:
            excerpt.following.append(line.text[:2000])
            if len(excerpt.following) <= _WRAPPED_LINES and not _OF_ITS_OWN.search(line.text):
                self._read_on(excerpt)
        self._open = [each for each in self._open if len(each.following) < FOLLOWING_LINES]

    def exclude_by(self, messages: Mapping[int, str]) -> None:
        """Remove rules from exception lines whose messages exclude them.

        ``messages`` maps the line number of an exception to its message; Keras puts pages of text
        between them.
        """
        for name, match in list(self.found.items()):
            for excerpt in match.excerpts:
                shape = shapes_of(messages.get(excerpt.line.number, "").encode("utf-8", "replace"))
                words = b" ".join(shape.split())
                if any(says(words, each) for each in match.rule.unless):
                    match.drop(excerpt)
            if not match.excerpts:
                del self.found[name]

    def _read_on(self, excerpt: Excerpt) -> None:
        """Remove a line's rules if its continuation excludes them."""
        _, below = self._rules_that_say(excerpt.following[-1])
        above = " ".join([excerpt.line.text, *excerpt.following[:-1]])
        names_no_allocator = "device:" in above and "allocator" not in above
        if not names_no_allocator and any(rule.level == "error" for rule in below):
            return  # a different message
        # Terminals also break lines within words.
        joined = (" ".join(excerpt.text.split()), excerpt.text.replace("\n", ""))
        shapes = [shapes_of(text.encode("utf-8", "replace")) for text in joined]
        shapes = [b" ".join(shape.split()) for shape in shapes]
        dropped = set()
        for name in list(excerpt.rules):
            match = self.found[name]
            if any(says(shape, each) for each in match.rule.unless for shape in shapes):
                dropped.add(name)
                excerpt.rules.remove(name)
                match.drop(excerpt)
                if not match.excerpts:
                    del self.found[name]
        if dropped and not below:
            for text in joined:
                self._add_rules_of(text, excerpt, without=dropped)

    def _add_rules_of(self, text: str, excerpt: Excerpt, without: set[str]) -> None:
        """Add the rules that match a line only together with its continuation."""
        shape, rules = self._rules_that_say(text)
        rules = [each for each in rules if each.id not in without and each.id not in excerpt.rules]
        for rule in rules:
            if rule.level == "error" and rule.holds(shape, text):
                excerpt.rules.append(rule.id)
                self.found.setdefault(rule.id, RuleMatch(rule)).add(excerpt)
