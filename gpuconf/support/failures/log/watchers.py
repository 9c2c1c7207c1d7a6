"""Maps the shapes of a log's lines to the watchers that read them; most shapes have none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from typing import NamedTuple, Protocol

from gpuconf.support.failures.log.shapes import PhraseIndex, phrase

# Shapes are cached until either limit is reached.
_MOST_SHAPES = 25_000
_MOST_BYTES = 8 << 20
_LONG_WORD = 64  # longer words rarely repeat, and would take much memory


class LogLine(NamedTuple):
    """A line of the log: its number, from 1 as in an editor, and its text."""

    number: int
    text: str


class Watcher(Protocol):
    """Reads the lines with certain words, in order; of many alike, only the first and the last.

    ``phrases`` are adjacent whole words; ``parts`` also match within words.
    """

    phrases: Sequence[str]
    parts: Sequence[str]

    def see(self, line: LogLine) -> None:
        """Process a line that contains the words."""


class Keeper(Protocol):
    """Keeps all lines with certain words, and parses them at the end."""

    phrases: Sequence[str]

    def keep(self, number: int, line: bytes) -> None:
        """Keep a line; there may be millions."""


class Follower(Protocol):
    """Reads the lines after those it saw, whatever they contain."""

    wants: int

    def follow(self, line: LogLine) -> None:
        """Process a line; ``wants`` is how many more to pass."""


class ShapeState:
    """The watchers of a shape, its line count, and its last two lines that were not shown.

    A shape is ``late`` if it first occurs after enough lines were shown.
    """

    __slots__ = ("count", "kept", "late", "unshown", "watchers")

    def __init__(self, watchers: Sequence[Watcher], *, kept: bool, late: bool) -> None:
        self.watchers, self.kept, self.late = watchers, kept, late
        self.count = 0
        self.unshown: tuple[tuple[int, bytes], ...] = ()

    @property
    def is_only_counted(self) -> bool:
        """Whether enough lines were shown, so that only the last two of the rest matter."""
        return bool(self.unshown)

    def leave_out(self, *lines: tuple[int, bytes]) -> None:
        """Note lines that were not shown, with their numbers, in order."""
        self.unshown = (*self.unshown, *lines)[-2:]


# A shape that may have watchers and has not occurred yet.
NOT_MET = ShapeState((), kept=False, late=False)


class ShapeWatchers:
    """Finds the watchers of line shapes, and caches them."""

    def __init__(self, watchers: Sequence[Watcher], keeper: Keeper) -> None:
        self._watchers = watchers
        phrases = [keeper.phrases, *(watcher.phrases for watcher in watchers)]
        self._phrases = PhraseIndex(
            (phrase(text), place)
            for place, texts in enumerate(phrases, -1)  # -1 is the keeper
            for text in texts
        )
        self._parts = [
            (phrase(part), place)
            for place, watcher in enumerate(watchers)
            for part in watcher.parts
        ]
        # Shapes that may have watchers; the set has the others.
        self.states: dict[bytes, ShapeState] = {}
        self._without: set[bytes] = set()
        self._dull: set[bytes] = set()  # words in no phrase and without a part
        self._bytes = 0

    def watched(self, shapes: Set[bytes]) -> set[bytes]:
        """The ``shapes`` that may have watchers; `states` has the state of each."""
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
        """The ``shapes`` that contain a word of a phrase, or a part."""
        if len(self._dull) > _MOST_SHAPES:
            self._dull.clear()
        are_dull = map(self._dull.issuperset, map(bytes.split, shapes))
        rest = [shape for shape, is_dull in zip(shapes, are_dull, strict=True) if not is_dull]
        return {shape for shape in rest if self._has_a_word(shape.split())}

    def _has_a_word(self, words: Sequence[bytes]) -> bool:
        """Whether any word belongs to a phrase or contains a part; caches the others."""
        has_one = False
        for word in set(words).difference(self._dull):
            if word in self._phrases.words or any(part in word for part, _ in self._parts):
                has_one = True
            elif len(word) < _LONG_WORD:
                self._dull.add(word)
        return has_one

    def meet(self, shape: bytes, *, late: bool) -> ShapeState | None:
        """The state of a shape at its first line; None if it has no watchers."""
        places = {place for part, place in self._parts if part in shape}
        places.update(self._phrases.said_in(shape.split()))
        del self.states[shape]  # keeps the order of `unshown`: that of first occurrence
        if not places:
            self._without.add(shape)
            return None
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        self.states[shape] = seen = ShapeState(watchers, kept=-1 in places, late=late)
        return seen

    def unshown(self) -> Iterator[tuple[int, bytes, Sequence[Watcher]]]:
        """The last two lines of each shape that occurred too often, with its watchers.

        Two, because a single line of progress below an error may be a redrawn bar.
        """
        for seen in self.states.values():
            for number, line in seen.unshown:
                yield number, line, seen.watchers

    def _forget(self) -> None:
        """Drop the shapes without watchers and the late ones."""
        self._without.clear()
        self.states = {
            shape: seen for shape, seen in self.states.items() if seen.watchers and not seen.late
        }
        self._bytes = sum(map(len, self.states))
