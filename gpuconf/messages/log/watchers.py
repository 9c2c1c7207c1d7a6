"""Who reads which lines of a log: maps line shapes to watchers; most shapes have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple, Protocol

from gpuconf.messages.log.shapes import PhraseIndex, phrase

# Shapes are remembered up to either.
_MOST_SHAPES = 25_000
_MOST_BYTES = 8 << 20
_LONG_WORD = 64  # such words seldom come again, and would take much memory


class LogLine(NamedTuple):
    """A line of the log: its number, from 1, as an editor counts, and its text."""

    number: int
    text: str


class Watcher(Protocol):
    """Reads the lines that have certain words, in order; of many alike, the first and the last.

    ``phrases`` are words next to each other; ``parts`` are found within words too.
    """

    phrases: Sequence[str]
    parts: Sequence[str]

    def see(self, line: LogLine) -> None:
        """Take note of a line that has the words."""


class Keeper(Protocol):
    """Keeps all lines that have certain words, and reads them at the end."""

    phrases: Sequence[str]

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line; there may be millions."""


class Follower(Protocol):
    """Reads the lines that follow those it saw, whatever is in them."""

    wants: int

    def follow(self, line: LogLine) -> None:
        """Take note of a line; ``wants`` is how many more to give it."""


class ShapeState:
    """The watchers of one shape, how many lines had it, and the last two that were not shown.

    ``late`` ones came when enough had been shown.
    """

    __slots__ = ("count", "kept", "late", "unshown", "watchers")

    def __init__(self, watchers: Sequence[Watcher], *, kept: bool, late: bool) -> None:
        self.watchers, self.kept, self.late = watchers, kept, late
        self.count = 0
        self.unshown: tuple[tuple[int, bytes], ...] = ()

    @property
    def is_only_counted(self) -> bool:
        """Whether enough lines were shown, so that of the others only the last two matter."""
        return bool(self.unshown)

    def leave_out(self, *lines: tuple[int, bytes]) -> None:
        """Note lines that are not shown, with their numbers, in order."""
        self.unshown = (*self.unshown, *lines)[-2:]


# The state of a shape that may have watchers and was not met yet.
NOT_MET = ShapeState((), kept=False, late=False)


class ShapeWatchers:
    """Finds the watchers of line shapes, and remembers what it found."""

    def __init__(self, watchers: Sequence[Watcher], keeper: Keeper) -> None:
        self._watchers = watchers
        phrases = [keeper.phrases, *(watcher.phrases for watcher in watchers)]
        self._phrases = PhraseIndex(
            (phrase(text), place)
            for place, texts in enumerate(phrases, -1)  # the keeper is -1
            for text in texts
        )
        self._parts = [
            (phrase(part), place)
            for place, watcher in enumerate(watchers)
            for part in watcher.parts
        ]
        # Of the shapes that may have watchers; the others are in the set.
        self.states: dict[bytes, ShapeState] = {}
        self._without: set[bytes] = set()
        self._dull: set[bytes] = set()  # words of no phrase and without a part
        self._bytes = 0

    def watched(self, shapes: Set[bytes]) -> set[bytes]:
        """Those of ``shapes`` that may have watchers; `states` has the state of each."""
        watched = set(shapes).difference(self._without)
        new = watched.difference(self.states)
        if new:
            if len(self.states) + len(self._without) > _MOST_SHAPES or self._bytes > _MOST_BYTES:
                self._forget()
                new = watched.difference(self.states)
            without = new.difference(self._with_words(new))
            watched -= without
            self._without |= without
            self.states.update(dict.fromkeys(new - without, NOT_MET))
            self._bytes += sum(map(len, new))
        return watched

    def _with_words(self, shapes: Set[bytes]) -> set[bytes]:
        """Those of ``shapes`` that have a word of a phrase, or a part."""
        if len(self._dull) > _MOST_SHAPES:
            self._dull.clear()
        are_dull = map(self._dull.issuperset, map(bytes.split, shapes))
        rest = [shape for shape, is_dull in zip(shapes, are_dull, strict=True) if not is_dull]
        return {shape for shape in rest if self._has_a_word(shape.split())}

    def _has_a_word(self, words: Sequence[bytes]) -> bool:
        """Whether one is a phrase's or has a part; the others are remembered."""
        has_one = False
        for word in set(words).difference(self._dull):
            if word in self._phrases.words or any(part in word for part, _ in self._parts):
                has_one = True
            elif len(word) < _LONG_WORD:
                self._dull.add(word)
        return has_one

    def meet(self, shape: bytes, *, late: bool) -> ShapeState | None:
        """The state of a shape whose first line is met now; None without watchers."""
        places = {place for part, place in self._parts if part in shape}
        places.update(self._phrases.said_in(shape.split()))
        del self.states[shape]  # `unshown` is to have the shapes in the order they were met in
        if not places:
            self._without.add(shape)
            return None
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        self.states[shape] = seen = ShapeState(watchers, kept=-1 in places, late=late)
        return seen

    def unshown(self) -> Iterator[tuple[int, bytes, Sequence[Watcher]]]:
        """Of each shape that was met too often: the last two lines, and its watchers.

        Two, because one line of progress below an error may be a bar drawn anew.
        """
        for seen in self.states.values():
            for number, line in seen.unshown:
                yield number, line, seen.watchers

    def _forget(self) -> None:
        """Forget the shapes that have no watchers or came late."""
        self._without.clear()
        self.states = {
            shape: seen for shape, seen in self.states.items() if seen.watchers and not seen.late
        }
        self._bytes = sum(map(len, self.states))
