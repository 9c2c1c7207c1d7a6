"""YAML files as an editor's language server sees them: YAML 1.2's core schema."""

from __future__ import annotations

import re
from typing import Any

from gpuconf.profile.document import parse
from gpuconf.profile.nodes import Mapping, Node, Sequence

_WORDS = {"true": True, "false": False, "null": None, "~": None, "": None}


def as_editor_sees(text: str) -> Any:
    """The plain data in ``text``; ``on`` is a word there, as in YAML 1.2."""
    return _plain(parse(text, "file"))


def _plain(node: Node) -> Any:
    if isinstance(node, Mapping):
        return {name: _plain(entry.value) for name, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [_plain(item) for item in node.items]
    return node.text if node.is_quoted else _resolved(node.text)


def _resolved(text: str) -> Any:
    """What unquoted ``text`` is in YAML 1.2."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if re.fullmatch(r"[-+]?[0-9]+", text):
        return int(text)
    if re.fullmatch(r"[-+]?(\.[0-9]+|[0-9]+\.?[0-9]*)([eE][-+]?[0-9]+)?", text):
        return float(text)
    if re.fullmatch(r"[-+]?\.(inf|nan)", text, re.IGNORECASE):
        return float(text.replace(".", ""))
    return text
