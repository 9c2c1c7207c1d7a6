"""The loops of a script are guarded, and nothing else of it changes."""

from __future__ import annotations

import ast
import builtins
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from gpuconf.commands.rehearse.agent.loops import AGAIN, TURNS, LoopTransformer, guarded_code

LOOPS = '''"""A docstring."""
from __future__ import annotations
seen = []
for x in [1, 2, 3]:
    seen.append(x)
else:
    seen.append("exhausted")
while len(seen) < 20:
    seen.append("turn")
else:
    seen.append("over")
while True:
    break
class Counter:
    total = 0
    for n in range(3):
        total += n
    while total < 100:
        total += 1
def rows(n):
    for x in range(n):
        yield x
def nested(n):
    for x in range(n):
        def inner():
            yield x
        while n:
            n -= 1
    return n
squares = [x * x for x in range(9)]
'''


class LoopGuards:
    """What a script meets instead of the agent: at most ``most`` turns of each loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.lines: list[int] = []

    def turns(self, iterable: Iterable[Any]) -> Iterator[Any]:
        """Stand in for the guard of a for loop."""
        self.lines.append(inspect.stack()[1].lineno)
        return (x for x, _ in zip(iterable, range(self.most), strict=False))

    def again(self) -> Callable[[], bool]:
        """Stand in for the guard of a while loop."""
        self.lines.append(inspect.stack()[1].lineno)
        turns = iter(range(self.most))
        return lambda: next(turns, None) is not None


def run(monkeypatch: pytest.MonkeyPatch, most: int) -> tuple[dict[str, Any], LoopGuards]:
    """Run the loops, each cut after ``most`` turns."""
    guards = LoopGuards(most)
    monkeypatch.setattr(builtins, TURNS, guards.turns, raising=False)
    monkeypatch.setattr(builtins, AGAIN, guards.again, raising=False)
    names: dict[str, Any] = {"__name__": "script"}
    exec(guarded_code(LOOPS, "script.py"), names)
    return names, guards


def test_uncut_a_script_does_what_it_did(monkeypatch: pytest.MonkeyPatch) -> None:
    """With guards that cut nothing all values are the plain script's, and no name is left."""
    names, _ = run(monkeypatch, most=1000)
    plain: dict[str, Any] = {"__name__": "script"}
    exec(compile(LOOPS, "script.py", "exec"), plain)
    assert names["seen"] == plain["seen"]
    assert names["squares"] == plain["squares"]
    assert vars(names["Counter"])["total"] == plain["Counter"].total == 100
    assert (list(names["rows"](4)), names["nested"](3)) == ([0, 1, 2, 3], 0)
    assert names["__doc__"] == "A docstring."
    assert set(names) == set(plain)
    assert set(vars(names["Counter"])) == set(vars(plain["Counter"]))


def test_a_cut_loop_ends_as_if_exhausted(monkeypatch: pytest.MonkeyPatch) -> None:
    """``else`` runs; loops that yield and comprehensions are left alone; lines are the script's."""
    names, guards = run(monkeypatch, most=2)
    assert names["seen"] == [1, 2, "exhausted", "turn", "turn", "over"]
    assert names["Counter"].total == 0 + 1 + 2
    assert list(names["rows"](4)) == [0, 1, 2, 3]
    assert len(names["squares"]) == 9
    lines = LOOPS.splitlines()
    assert [lines[line - 1].split()[0] for line in guards.lines] == [
        *("for", "while", "while", "for", "while")
    ]


def test_functions_keep_their_lines() -> None:
    """A frame's line is that of the source, so that tracebacks and AutoGraph find it."""
    source = (
        "def f(n):\n    while n:\n        n -= 1\n    for x in [0]:\n        raise KeyError\nf(1)\n"
    )
    tree = LoopTransformer().visit(ast.parse(source))
    lines = {node.lineno for node in ast.walk(tree) if hasattr(node, "lineno")}
    assert lines == {1, 2, 3, 4, 5, 6}


def test_a_first_call_stands_behind_what_must_be_first() -> None:
    """A docstring and imports from ``__future__`` stay in front; an empty module gets it too."""
    called = []
    for source in (LOOPS.splitlines()[0], "from __future__ import annotations\nx = 1", "", "1"):
        names: dict[str, Any] = {"first": lambda: called.append(1)}
        exec(guarded_code(source, "script.py", first="first"), names)
        assert ("x" in names) == ("x =" in source)
    assert len(called) == 4
