"""Who reads which lines of a log: maps line shapes to watchers; most shapes have none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from gpuconf.messages.log.shapes import PhraseIndex, phrase

# Shapes are remembered up to either.
_MOST_SHAPES = 25_000
_MOST_BYTES = 8 << 20


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
        self._known: dict[bytes, ShapeState | None] = {}
        self._known_bytes = 0

    def known_with(self, shapes: Sequence[bytes]) -> Mapping[bytes, ShapeState | None]:
        """All that is known, with these shapes: None for a shape without watchers."""
        new = set(shapes).difference(self._known)
        if not new:
            return self._known
        if len(self._known) > _MOST_SHAPES or self._known_bytes > _MOST_BYTES:
            self._forget()
            new = set(shapes).difference(self._known)
        has_no_word = self._phrases.words.isdisjoint
        watched = {shape for shape in new if not has_no_word(shape.split())}
        text = b"\n".join(new)
        for part in [part for part, _ in self._parts if part in text]:
            watched.update([shape for shape in new if part in shape])
        self._known.update(dict.fromkeys(new))
        self._known.update(dict.fromkeys(watched, NOT_MET))
        self._known_bytes += sum(map(len, new))
        return self._known

    def meet(self, shape: bytes, *, late: bool) -> ShapeState | None:
        """The state of a shape whose first line is met now; None without watchers."""
        places = {place for part, place in self._parts if part in shape}
        places.update(self._phrases.said_in(shape.split()))
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        seen = ShapeState(watchers, kept=-1 in places, late=late) if places else None
        self._known[shape] = seen
        return seen

    def unshown(self) -> Iterator[tuple[int, bytes, Sequence[Watcher]]]:
        """Of each shape that was met too often: the last two lines, and its watchers.

        Two, because one line of progress below an error may be a bar drawn anew.
        """
        for seen in self._known.values():
            if seen is not None:
                for number, line in seen.unshown:
                    yield number, line, seen.watchers

    def _forget(self) -> None:
        """Forget the shapes that have no watchers or came late."""
        self._known = {
            shape: seen
            for shape, seen in self._known.items()
            if seen is not None and seen.watchers and not seen.late
        }
        self._known_bytes = sum(map(len, self._known))
