"""Turn a file's bytes into text and nodes, with limits on everything and no object construction.

This uses PyYAML's pure Python scanner and parser.  The C versions read a few texts differently (a
tab after a colon) and report some errors elsewhere, so a file would be valid on one machine and
invalid on the next.  For a 30-line profile, the pure Python versions take about a millisecond.
"""

from __future__ import annotations

import sys
from typing import Any

from gpuconf.errors import MissingDependencyError, ProfileError
from gpuconf.profile.nodes import Entry, Mapping, Mark, Node, Scalar, Sequence
from gpuconf.profile.problems import problem, quoted

try:
    from yaml import composer, error, events, nodes, parser, reader, scanner
except ModuleNotFoundError:
    raise MissingDependencyError(
        "profiles are YAML, but PyYAML is not installed", hint="pip install pyyaml"
    ) from None
except ImportError:
    _file = getattr(sys.modules.get("yaml"), "__file__", None)
    raise MissingDependencyError(
        f"profiles are YAML, but {_file or 'a module named yaml'} hides PyYAML",
        hint="rename that file or folder"
        if _file
        else "import gpuconf.auto before creating that module",
    ) from None

DEEPEST = 20
MOST_NODES = 5000
_UTF8_MARK = b"\xef\xbb\xbf"
# YAML ends lines at these but editors do not: line numbers would be wrong, and comments would end
# early.
_ODD_LINE_ENDS = {"\x85": "U+0085", "\u2028": "U+2028", "\u2029": "U+2029"}
_CORE = "tag:yaml.org,2002:"
_TAGS: dict[type[events.Event], frozenset[str]] = {
    events.ScalarEvent: frozenset(_CORE + name for name in ("str", "int", "float", "bool", "null")),
    events.SequenceStartEvent: frozenset((_CORE + "seq",)),
    events.MappingStartEvent: frozenset((_CORE + "map",)),
}


def decode(data: bytes, file: str) -> str:
    """Decode ``data``; raise ProfileError for anything but UTF-8 (a byte order mark is allowed)."""
    data = data.removeprefix(_UTF8_MARK)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _not_text(data, error.start, file) from None
    for character, name in _ODD_LINE_ENDS.items():
        if character in text:
            where = _mark_at(text, text.index(character), file)
            hint = "delete it; end lines with a regular line feed"
            raise problem(f"found the line separator {name}", mark=where, hint=hint)
    return text


def _not_text(data: bytes, offset: int, file: str) -> ProfileError:
    if b"\x00" in data[:1024]:
        message = "the file is binary, UTF-16, or UTF-32; a profile must be UTF-8 text"
        save = f"iconv -f UTF-16 -t UTF-8 {file} > new.yaml"
        hint = f"check that it is the right file. If it is UTF-16, save it as UTF-8: {save}"
    else:
        message = f"found the byte 0x{data[offset]:02x}, which is not UTF-8"
        hint = f"save the file as UTF-8: iconv -f ISO-8859-1 -t UTF-8 {file} > new.yaml"
    where = _mark_at(data[:offset].decode("utf-8"), offset, file)
    return problem(message, mark=where, hint=hint)


def _mark_at(text: str, offset: int, file: str) -> Mark:
    """Return the line and column of the character at ``offset``."""
    before = text[:offset].replace("\r\n", "\n").replace("\r", "\n")
    return Mark(file, before.count("\n") + 1, len(before) - before.rfind("\n"))


def parse(text: str, file: str) -> Mapping:
    """Parse the single mapping in ``text``; raise ProfileError with line and column otherwise."""
    loader: _Loader | None = None
    try:
        loader = _Loader(text, file)
        return _profile(loader.get_single_node(), file)
    except composer.ComposerError as refusal:  # its other errors concern aliases
        raise problem(
            "a second YAML document starts here; a file can contain only one profile",
            mark=_mark(refusal.problem_mark, file),
            hint="move it to a separate file, and delete the `---` line",
        ) from None
    except error.MarkedYAMLError as refusal:
        from gpuconf.profile.syntax_errors import syntax_error

        raise syntax_error(refusal, text, file) from None
    except reader.ReaderError as refusal:
        where = _mark_at(text, refusal.position, file)
        message = f"found the control character U+{ord(text[refusal.position]):04X}"
        raise problem(message, mark=where, hint="delete it; a profile is plain text") from None
    except (ValueError, OverflowError) as refusal:
        if isinstance(refusal, ProfileError) or loader is None:
            raise
        # PyYAML 6 does not catch errors from chr() and int(), e.g. for "\UFFFFFFFF".
        where = _mark(loader.get_mark(), file)
        hint = "write the character itself"
        raise problem(
            "found an escape sequence that does not encode a character", mark=where, hint=hint
        ) from None


class _Loader(reader.Reader, scanner.Scanner, parser.Parser, composer.Composer):
    """Composes PyYAML nodes; rejects aliases, tags that construct objects, and oversized input."""

    def __init__(self, text: str, file: str) -> None:
        reader.Reader.__init__(self, text)
        for each in (scanner.Scanner, parser.Parser, composer.Composer):
            each.__init__(self)  # in the order that PyYAML uses
        self._file = file
        self._nodes = 0
        self._path: list[str] = []  # of the node being composed: names and [indices]

    def resolve(self, *_: Any) -> None:
        """Do not resolve the tag that YAML 1.1 would guess; the key decides the type."""

    def descend_resolver(self, *_: Any) -> None:
        """Do not resolve tags by path."""

    def ascend_resolver(self) -> None:
        """Do nothing when a path ends."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose the next node; ``index`` is its key node or list index, None if it is a key
        itself.
        """
        if isinstance(index, nodes.ScalarNode):
            self._path.append(f".{index.value}")
        else:
            self._path.append("" if index is None else f"[{index}]")
        self._check(self.peek_event())  # type: ignore[no-untyped-call]  # the stubs' omission
        node = super().compose_node(parent, index)
        self._path.pop()
        return node

    def _check(self, event: Any) -> None:
        self._nodes += 1
        if isinstance(event, events.AliasEvent):
            shown = quoted(f"*{event.anchor}")
            hint = "write the value itself, or quote a literal *"
            raise self._problem(f"the alias {shown} is not supported", hint, event)
        if len(self._path) > DEEPEST + 1:
            hint = "a profile needs at most 6 levels"
            raise self._problem(f"nested deeper than {DEEPEST} levels", hint, event)
        if self._nodes > MOST_NODES:
            hint = "a profile has about 30 lines"
            raise self._problem(f"the file contains more than {MOST_NODES} values", hint, event)
        if event.anchor is not None:
            shown = quoted(f"&{event.anchor}")
            hint = "delete it, and write out the value wherever it is used"
            raise self._problem(f"the anchor {shown} is not supported", hint, event)
        if event.tag is not None and event.tag not in _TAGS[type(event)]:
            shown = quoted(event.tag.replace(_CORE, "!!", 1))
            hint = "write plain text, numbers, lists, and mappings; see: gpuconf profiles schema"
            raise self._problem(
                f"the tag {shown} is not supported; nothing was executed", hint, event
            )

    def _problem(self, message: str, hint: str, event: Any) -> ProfileError:
        key = "".join(self._path).removeprefix(".")
        return problem(message, mark=_mark(event.start_mark, self._file), key=key, hint=hint)


def _mark(mark: Any, file: str) -> Mark:
    return Mark(file, mark.line + 1, mark.column + 1)


def _profile(composed: nodes.Node | None, file: str) -> Mapping:
    root = Scalar("", False, Mark(file, 1, 1)) if composed is None else _node(composed, "", file)
    if isinstance(root, Mapping):
        return root
    if isinstance(root, Scalar) and (root.is_empty or root.is_null):
        raise problem(
            "the file has no rules, so nothing would be limited",
            mark=root.mark,
            hint="write `extends: shared-desktop`, or `{}` for no rules at all",
        )
    kind = "a list" if isinstance(root, Sequence) else "a string"
    hint = "write keys and values with a space after the colon: `extends: NAME`"
    raise problem(
        f"the file contains {kind}; a profile must be a mapping", mark=root.mark, hint=hint
    )


def _node(node: nodes.Node, key: str, file: str) -> Node:
    mark = _mark(node.start_mark, file)
    if isinstance(node, nodes.MappingNode):
        return _mapping(node, key, file)
    if isinstance(node, nodes.SequenceNode):
        items = (_node(item, f"{key}[{place}]", file) for place, item in enumerate(node.value))
        return Sequence(tuple(items), mark)
    is_quoted = isinstance(node, nodes.ScalarNode) and bool(node.style)
    return Scalar(node.value, is_quoted or node.tag == _CORE + "str", mark)


def _mapping(node: nodes.MappingNode, key: str, file: str) -> Mapping:
    entries: dict[str, Entry] = {}
    for name, value in node.value:
        mark = _mark(name.start_mark, file)
        if not isinstance(name, nodes.ScalarNode):
            hint = "a key is one word, such as `memory:`; put text with [ or { in quotes"
            raise problem("a list or mapping is used as a key", mark=mark, key=key, hint=hint)
        if name.value == "<<" and not name.style:
            hint = "name the other profile: `extends: NAME`; deeper keys override it"
            raise problem("the merge key << is not supported", mark=mark, key=key, hint=hint)
        path = f"{key}.{name.value}" if key else name.value
        if name.value in entries:
            raise problem(
                f"written twice, first on line {entries[name.value].key_mark.line}; "
                "YAML would silently use the last value",
                mark=mark,
                key=path,
                hint="delete one of them",
            )
        entries[name.value] = Entry(mark, _node(value, path, file))
    return Mapping(entries, _mark(node.start_mark, file))
