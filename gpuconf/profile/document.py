"""YAML text to nodes, with a limit on everything, and nothing ever constructed.

PyYAML's pure scanner and parser give the events; the C ones read a few texts differently
(a tab after a colon) and put some errors elsewhere, so one file would be good on one machine
and bad on the next.  For a profile of 30 lines the pure ones need about a millisecond.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from gpuconf.errors import ProfileError
from gpuconf.profile.encoding import position
from gpuconf.profile.nodes import Entry, Mapping, Mark, Node, Scalar, Sequence
from gpuconf.profile.problems import problem, quoted

DEEPEST = 20
MOST_NODES = 5000  # counted with every alias expanded, so that a bomb is seen while it is small
MOST_ALIASES = 64
_CORE = "tag:yaml.org,2002:"
_SCALAR_TAGS = frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null"))
_PLAIN_WORDS_ONLY = "write plain text, numbers, lists and mappings; see: gpuconf profiles schema"


def parse(text: str, file: str) -> Mapping:
    """The one mapping in ``text``; ProfileError with line and column for anything else."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        return _Composer(loader, file).document()
    except yaml.MarkedYAMLError as error:
        from gpuconf.profile.syntax_errors import syntax_error

        raise syntax_error(error, text, file) from None
    except yaml.reader.ReaderError as error:
        where = Mark(file, **position(text, error.position))
        message = f"found the control character U+{ord(text[error.position]):04X}"
        raise problem(message, mark=where, hint="delete it; a profile is plain text") from None
    except (ValueError, OverflowError) as error:
        if isinstance(error, ProfileError) or loader is None:
            raise
        # PyYAML 6 lets chr() and int() speak for themselves, e.g. for "\UFFFFFFFF".
        where = _mark(loader.get_mark(), file)
        hint = "write the character itself"
        raise problem("found an escape for no character", mark=where, hint=hint) from None


def _mark(mark: Any, file: str) -> Mark:
    return Mark(file, mark.line + 1, mark.column + 1)


class _Composer:
    """Builds nodes from parser events; counts as it goes."""

    def __init__(self, loader: yaml.SafeLoader, file: str) -> None:
        # Any: the type stubs leave the events' fields out
        self._next_event: Callable[[], Any] = loader.get_event
        self._file = file
        self._anchors: dict[str, tuple[Node, int] | None] = {}  # None while it is being read
        self._nodes = 0
        self._aliases = 0

    def document(self) -> Mapping:
        self._next_event()  # the stream begins
        event = self._next_event()
        if isinstance(event, yaml.StreamEndEvent):
            raise self._no_profile(Mark(self._file, 1, 1))
        first = self._next_event()
        root = self._node(first, "", 0)
        if isinstance(root, Scalar) and (root.is_empty or root.is_null):
            raise self._no_profile(root.mark)
        if not isinstance(root, Mapping):
            kind = "a list" if isinstance(root, Sequence) else "one text"
            hint = "write keys with values, and a space after the colon: `extends: NAME`"
            raise problem(
                f"the file holds {kind}; a profile is a mapping", mark=root.mark, hint=hint
            )
        self._next_event()  # the document ends
        event = self._next_event()
        if not isinstance(event, yaml.StreamEndEvent):
            raise problem(
                "a second document begins here; a file holds one profile",
                mark=_mark(event.start_mark, self._file),
                hint="put it into a file of its own, and delete the line `---`",
            )
        return root

    def _no_profile(self, mark: Mark) -> ProfileError:
        return problem(
            "the file says nothing; without a rule nothing would be limited",
            mark=mark,
            hint="write `extends: shared-desktop`, or `{}` to ask for no rule at all",
        )

    def _node(self, event: Any, key: str, depth: int) -> Node:
        """The node that begins with ``event``."""
        mark = _mark(event.start_mark, self._file)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), mark, key)
        if depth > DEEPEST:
            hint = "a profile needs no more than 6 levels"
            raise problem(f"nested deeper than {DEEPEST} levels", mark=mark, key=key, hint=hint)
        before = self._nodes
        self._count(1, mark)
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, yaml.ScalarEvent):
            node = self._scalar(event, mark, key)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._check_tag(event.tag, "seq", mark, key)
            node = self._sequence(mark, key, depth)
        else:
            self._check_tag(event.tag, "map", mark, key)
            node = self._mapping(mark, key, depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._nodes - before)
        return node

    def _count(self, nodes: int, mark: Mark) -> None:
        self._nodes += nodes
        if self._nodes > MOST_NODES:
            raise problem(
                f"the file holds more than {MOST_NODES} values, its aliases expanded",
                mark=mark,
                hint="a profile is some 30 lines; write it without aliases",
            )

    def _alias(self, anchor: str, mark: Mark, key: str) -> Node:
        self._aliases += 1
        known = self._anchors.get(anchor)
        if known is None:
            state = "stands inside itself" if anchor in self._anchors else "names no anchor above"
            hint = "write the value itself instead of the alias, or put * in quotes"
            raise problem(
                f"the alias {quoted('*' + anchor)} {state}", mark=mark, key=key, hint=hint
            )
        if self._aliases > MOST_ALIASES:
            hint = "write the values out; a profile is some 30 lines"
            raise problem(f"more than {MOST_ALIASES} aliases", mark=mark, key=key, hint=hint)
        self._count(known[1], mark)
        return known[0]

    def _scalar(self, event: Any, mark: Mark, key: str) -> Scalar:
        if event.tag is not None and event.tag not in _SCALAR_TAGS:
            raise self._refused_tag(event.tag, mark, key)
        is_quoted = bool(event.style) or event.tag == _CORE + "str"
        return Scalar(event.value, is_quoted, mark)

    def _sequence(self, mark: Mark, key: str, depth: int) -> Sequence:
        items: list[Node] = []
        while not isinstance(event := self._next_event(), yaml.SequenceEndEvent):
            items.append(self._node(event, f"{key}[{len(items)}]", depth + 1))
        return Sequence(tuple(items), mark)

    def _mapping(self, mark: Mark, key: str, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := self._next_event(), yaml.MappingEndEvent):
            name = self._node(event, key, depth + 1)
            key_mark = _mark(event.start_mark, self._file)
            text = self._checked_name(name, entries, key_mark, key)
            path = f"{key}.{text}" if key else text
            entries[text] = Entry(key_mark, self._node(self._next_event(), path, depth + 1))
        return Mapping(entries, mark)

    def _checked_name(self, name: Node, entries: dict[str, Entry], mark: Mark, key: str) -> str:
        """The text of a key; refuses keys that are no text, merge keys and repeats."""
        if not isinstance(name, Scalar):
            hint = "a key is one word, such as `memory:`; put text with [ or { in quotes"
            raise problem("a list or mapping stands as a key", mark=mark, key=key, hint=hint)
        if name.text == "<<" and not name.is_quoted:
            hint = "name the other profile: `extends: NAME`; deeper keys override it"
            raise problem("the merge key << is not read", mark=mark, key=key, hint=hint)
        if name.text in entries:
            first = entries[name.text].key_mark.line
            path = f"{key}.{name.text}" if key else name.text
            raise problem(
                f"written twice, first in line {first}; YAML would silently take the last",
                mark=mark,
                key=path,
                hint="delete one of the two",
            )
        return name.text

    def _check_tag(self, tag: str | None, kind: str, mark: Mark, key: str) -> None:
        if tag is not None and tag != _CORE + kind:
            raise self._refused_tag(tag, mark, key)

    def _refused_tag(self, tag: str, mark: Mark, key: str) -> ProfileError:
        shown = "!!" + tag.removeprefix(_CORE) if tag.startswith(_CORE) else tag
        message = f"the tag {quoted(shown)} is not read, and nothing was executed"
        return problem(message, mark=mark, key=key, hint=_PLAIN_WORDS_ONLY)
