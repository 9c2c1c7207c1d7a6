"""The mechanical changes to a public script: stand-in data, fewer epochs, TensorFlow 1's names.

No line moves: a change stays on its line, so that `train.py:80` is line 80 as published.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator

from tests.public.listing import Script

Change = tuple[int, int, str]
"""Start and end in the text, in characters, and what stands there instead."""
Place = Callable[[int, int], int]
"""From a line and a column, as ast counts them, to a place in the text."""

OLD_DATA = "from tensorflow.examples.tutorials.mnist import input_data"
OLD_TENSORFLOW = re.compile(r"^(\s*)import tensorflow as tf\s*$", re.MULTILINE)
NEW_TENSORFLOW = r"\1import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
SHELL = re.compile(r"^(\s*)[%!].*$", re.MULTILINE)
FIRST_FRAMEWORK = re.compile(r"^(?:import|from) (?:tensorflow|keras)\b[^#\n]*", re.MULTILINE)
HEADER = "; import stand_in_data"


def edit(text: str, script: Script) -> str:
    """The text of a script, or of a notebook's cell, with the changes of its entry."""
    if script.path.endswith(".ipynb"):
        text = SHELL.sub(r"\1pass", text)
    text = change_values(text, script)
    for old, new in script.strings.items():
        text = text.replace(old, new)
    if script.tf1:
        text = OLD_TENSORFLOW.sub(NEW_TENSORFLOW, text).replace(OLD_DATA, "import input_data")
    return text


def add_header(text: str) -> str:
    """The import of the stand-ins, behind the first line that imports TensorFlow or Keras."""
    line = FIRST_FRAMEWORK.search(text)
    if line is None:
        return text
    end = line.start() + len(line.group().rstrip())
    return text[:end] + HEADER + text[end:]


def change_values(text: str, script: Script) -> str:
    """Other values for the names and numbers of the entry."""
    lines = text.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))

    def place(line: int, column: int) -> int:
        return starts[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for start, end, new in sorted(changes(ast.parse(text), script, place), reverse=True):
        text = text[:start] + new + text[end:]
    return text


def changes(tree: ast.AST, script: Script, place: Place) -> Iterator[Change]:
    """The changes to a tree: names first, and numbers that are not a named value already."""
    named = set()
    for node in ast.walk(tree):
        for name, value in named_values(node):
            if name in script.names and not isinstance(value, ast.Name):
                named.add(value)
                yield (*span(value, place), repr(script.names[name]))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and node not in named:
            number = script.numbers.get(node.value)
            if number is not None:
                yield (*span(node, place), str(number))


def named_values(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """The names that a node gives values to, by assignment or as arguments, and the values."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        yield node.targets[0].id, node.value
    if isinstance(node, ast.Call):
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)


def span(node: ast.expr, place: Place) -> tuple[int, int]:
    """Where an expression stands in the text."""
    end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
    return place(node.lineno, node.col_offset), place(end_line, end_column)
