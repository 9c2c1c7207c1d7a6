"""The calls, imports and assignments of a file in the order in which they would run.

A function's body is placed at its first call.  Each function that the file itself never calls is a
separate path, after everything that the file does when it is imported.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Arms = tuple[tuple[int, str], ...]
_Kinds = (ast.Call, ast.Import, ast.ImportFrom, ast.Assign, ast.AugAssign)


class CodeEvent(NamedTuple):
    """A step of the program, and the arms of ``if``, ``except`` and ``case`` that contain it."""

    node: ast.Call | ast.Import | ast.ImportFrom | ast.Assign | ast.AugAssign
    arms: _Arms

    def surely_precedes(self, later: CodeEvent) -> bool:
        """Whether this earlier event happens whenever ``later`` does."""
        return self.arms == later.arms[: len(self.arms)]


class CodePath(NamedTuple):
    """One path through the file; the steps before ``own_from`` also belong to another path."""

    steps: tuple[CodeEvent, ...]
    own_from: int = 0


def lines_through(tree: ast.Module) -> tuple[CodePath, ...]:
    """The paths through a file: the file as it is run, then each function that nothing calls."""
    walker = _Walker(tree)
    walker.statements(tree.body)
    lines = [CodePath(tuple(walker.steps))]
    # Code that imports the file, such as a spawned worker, never runs the part under __main__.
    imported = tuple(step for step in walker.steps if step not in walker.under_main)
    for function in walker.every_function:
        if function not in walker.called:
            walker.steps = []
            walker.enter(function)
            lines.append(CodePath(imported + tuple(walker.steps), len(imported)))
    return tuple(lines)


class _Walker:
    def __init__(self, tree: ast.Module) -> None:
        self.steps: list[CodeEvent] = []
        self.under_main: set[CodeEvent] = set()
        self.called: set[Function] = set()
        self.every_function: list[Function] = []
        self._by_name: dict[str, Function] = {}
        self._arms: _Arms = ()
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self._take_class(node)
            elif isinstance(node, Function):
                self.every_function.append(node)
                self._by_name.setdefault(node.name, node)

    def _take_class(self, node: ast.ClassDef) -> None:
        for member in node.body:
            if isinstance(member, Function):
                self._by_name[f"self.{member.name}"] = member
                if member.name == "__init__":
                    self._by_name[node.name] = member

    def enter(self, function: Function) -> None:
        """Walk the body once; a generator's body does not run when it is called."""
        self.called.add(function)
        if not _is_generator(function):
            self.statements(function.body)

    def statements(self, body: Iterable[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, Function):
            self._expressions([*node.decorator_list, *node.args.defaults])
        elif isinstance(node, ast.ClassDef):
            self._expressions([*node.decorator_list, *node.bases])
            self.statements(node.body)
        elif isinstance(node, ast.If):
            self._if(node)
        elif isinstance(node, ast.Try) or type(node).__name__ == "TryStar":
            self._try(node)  # type: ignore[arg-type]  # TryStar has the same fields
        elif isinstance(node, ast.Match):
            self._expressions([node.subject])
            for number, case in enumerate(node.cases):
                self._arm(node, f"case {number}", case.body)
        else:
            self._plain(node)

    def _if(self, node: ast.If) -> None:
        self._expressions([node.test])
        if _asks_for_main(node.test):
            begin = len(self.steps)
            self.statements(node.body)
            self.under_main |= set(self.steps[begin:])
            self._arm(node, "else", node.orelse)
            return
        self._arm(node, "if", node.body)
        self._arm(node, "else", node.orelse)

    def _try(self, node: ast.Try) -> None:
        self.statements(node.body)
        for number, handler in enumerate(node.handlers):
            self._arm(handler, f"except {number}", handler.body)
        self.statements(node.orelse)
        self.statements(node.finalbody)

    def _arm(self, fork: ast.AST, arm: str, body: Iterable[ast.stmt]) -> None:
        before, self._arms = self._arms, (*self._arms, (id(fork), arm))
        self.statements(body)
        self._arms = before

    def _plain(self, node: ast.stmt) -> None:
        """Loops, ``with`` and simple statements: their contents, in order."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                self._statement(child)
            else:
                self._expression(child)
        self._step(node)

    def _expressions(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self._expression(node)

    def _expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.Lambda):
            return
        if isinstance(node, ast.BoolOp | ast.IfExp):
            first, *others = node.values if isinstance(node, ast.BoolOp) else _if_parts(node)
            self._expression(first)
            before = self._arms
            for number, other in enumerate(others):
                self._arms = (*before, (id(node), str(number)))
                self._expression(other)
            self._arms = before
            return
        for child in ast.iter_child_nodes(node):
            self._expression(child)
        self._step(node)

    def _step(self, node: ast.AST) -> None:
        if not isinstance(node, _Kinds):
            return
        self.steps.append(CodeEvent(node, self._arms))
        if isinstance(node, ast.Call):
            function = self._by_name.get(_local_name(node.func))
            if function is not None and function not in self.called:
                self.enter(function)


def _if_parts(node: ast.IfExp) -> tuple[ast.expr, ast.expr, ast.expr]:
    return node.test, node.body, node.orelse


def _local_name(node: ast.expr) -> str:
    """``main`` for ``main``, ``self.run`` for ``self.run``; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"self.{node.attr}" if node.value.id == "self" else ""
    return ""


def _asks_for_main(test: ast.expr) -> bool:
    """Whether this is the test of ``if __name__ == "__main__":``."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], ast.Eq):
        return False
    parts = [test.left, *test.comparators]
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in parts)


def _is_generator(function: Function) -> bool:
    """Whether it yields, not counting its inner functions."""
    waiting: list[ast.AST] = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
    return False
