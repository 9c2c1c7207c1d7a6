"""Rewrite PyYAML's errors for people who edit a profile."""

from __future__ import annotations

import re

from yaml import MarkedYAMLError

from gpuconf.basics.terminal import printable
from gpuconf.errors import ProfileError
from gpuconf.profile.nodes import Mark
from gpuconf.profile.problems import problem

_KEY_AND_REST = re.compile(r"\s*(?:- )?([\w.-]+):\s+(.*\S)\s*")
_INDENTATION = "indent with two spaces, and write `key: value` with a space after the colon"
_HINTS = (
    ("'\\t' that cannot start", "use spaces; YAML does not allow tabs here"),
    ("that cannot start any token", "put the text in quotes"),
    ("expected ',' or ']'", "close the list with ] and put a comma between its items"),
    ("expected ',' or '}'", "close the mapping with } and put a comma between its items"),
    ("unexpected end of stream", "close the quotes"),
    ("could not find expected ':'", "write `key: value`, with a space after the colon"),
    ("found unknown escape", "in double quotes write \\\\ for \\, or use single quotes"),
    ("incompatible YAML document", "delete the line that starts with %YAML"),
    ("undefined tag handle", "delete the tag; gpuconf only reads plain values"),
)


def syntax_error(error: MarkedYAMLError, text: str, file: str) -> ProfileError:
    """Convert ``error``, which PyYAML raised for ``text``, to a ProfileError with a hint."""
    mark = error.problem_mark or error.context_mark
    if error.context_mark and "end" in str(error.problem) and "stream" in str(error.problem):
        mark = error.context_mark  # point at the unclosed item, not at the end of the file
    where = Mark(file, mark.line + 1, mark.column + 1) if mark else Mark(file, 1, 1)
    line = text.splitlines()[mark.line] if mark and mark.line < len(text.splitlines()) else ""
    # it repeats the name of a tag or anchor, however long
    complaint = printable((error.problem or error.context or "cannot be read")[:200])
    message = f"not YAML: {complaint}"
    if error.context and error.context_mark and error.context_mark.line + 1 != where.line:
        message += f" ({error.context} that begins on line {error.context_mark.line + 1})"
    return problem(message, mark=where, hint=_hint(complaint, line))


def _hint(complaint: str, line: str) -> str:
    if "mapping values are not allowed" in complaint:
        return _hint_for_second_colon(line)
    for fragment, hint in _HINTS:
        if fragment in complaint:
            return hint
    return _INDENTATION


def _hint_for_second_colon(line: str) -> str:
    """Suggest braces for ``on_shortage: wait: 10min``, quotes for ``description: Note: so``."""
    match = _KEY_AND_REST.fullmatch(line[:200])
    if match is None or ": " not in match[2]:
        return _INDENTATION
    key, rest = match[1], match[2]
    if key in ("on_shortage", "gpus", "memory", "per_gpu", "env", "tensorflow", "jax", "torch"):
        return f"a mapping within a line needs braces: `{key}: {{{rest}}}`"
    return f'text with a colon needs quotes: `{key}: "{rest}"`'
