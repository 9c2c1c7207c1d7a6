"""Who watches lines of which shape; most shapes nobody does, and they are told apart quickly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuconf.messages.log.shapes import PhraseIndex, phrase
from gpuconf.messages.log.watching import Keeper, Watcher

# Shapes are remembered up to either.
_MOST_SHAPES = 25_000
_MOST_BYTES = 8 << 20


class Seen:
    """Who watches lines of one shape, how many there were, and the last two that were not shown.

    ``late`` ones came when enough had been shown.
    """

    __slots__ = ("count", "kept", "late", "unshown", "watchers")

    def __init__(self, watchers: Sequence[Watcher], *, kept: bool, late: bool) -> None:
        self.watchers, self.kept, self.late = watchers, kept, late
        self.count = 0
        self.unshown: tuple[tuple[int, bytes], ...] = ()


# Of a shape that has a word of somebody's and was not met yet.
NOT_MET = Seen((), kept=False, late=False)


class Interest:
    """Finds, for lines' shapes, those who watch them; remembers what it found."""

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
        self._known: dict[bytes, Seen | None] = {}
        self._known_bytes = 0

    def known_with(self, shapes: Sequence[bytes]) -> Mapping[bytes, Seen | None]:
        """All that is known, with these shapes: None for those that nobody watches."""
        new = set(shapes).difference(self._known)
        if not new:
            return self._known
        if len(self._known) > _MOST_SHAPES or self._known_bytes > _MOST_BYTES:
            self._forget()
            new = set(shapes).difference(self._known)
        is_strange = self._phrases.words.isdisjoint
        told = {shape for shape in new if not is_strange(shape.split())}
        text = b"\n".join(new)
        for part in [part for part, _ in self._parts if part in text]:
            told.update([shape for shape in new if part in shape])
        self._known.update(dict.fromkeys(new))
        self._known.update(dict.fromkeys(told, NOT_MET))
        self._known_bytes += sum(map(len, new))
        return self._known

    def meet(self, shape: bytes, *, late: bool) -> Seen | None:
        """Who watches the lines of a shape of which the first line is met now."""
        places = {place for part, place in self._parts if part in shape}
        places.update(self._phrases.said_in(shape.split()))
        watchers = [self._watchers[place] for place in sorted(places) if place >= 0]
        seen = Seen(watchers, kept=-1 in places, late=late) if places else None
        self._known[shape] = seen
        return seen

    def unshown(self) -> Iterator[tuple[int, bytes, Sequence[Watcher]]]:
        """Of each shape that was met too often: the last two lines, and who watches them.

        Two, because one line of progress below an error may be a bar drawn anew.
        """
        for seen in self._known.values():
            if seen is not None:
                for number, line in seen.unshown:
                    yield number, line, seen.watchers

    def _forget(self) -> None:
        """Forget the shapes of which nothing but themselves is known."""
        self._known = {
            shape: seen
            for shape, seen in self._known.items()
            if seen is not None and seen.watchers and not seen.late
        }
        self._known_bytes = sum(map(len, self._known))
