"""Rewrite the loops of user code so that they consult a guard before each iteration.

``for x in ITER`` becomes ``for x in __gpuconf_turns__(ITER)``; ``while C`` becomes ``while g() and
(C)``, preceded by ``g = __gpuconf_again__()``.  Everything else stays the same, including line
numbers.  AutoGraph reads a function's source from its file, so it never sees the changes.

Comprehensions, ``async for``, and loops that yield are not changed: these supply data to
a loop elsewhere.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

TURNS, AGAIN = "__gpuconf_turns__", "__gpuconf_again__"  # `guards` puts them into builtins
_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class LoopTransformer(ast.NodeTransformer):
    """LoopGuards all loops of a tree; can be used directly in IPython's ``ast_transformers``."""

    def visit_For(self, node: ast.For) -> ast.AST:
        """Put the guard around the iterable."""
        self.generic_visit(node)
        if not _yields(node):
            node.iter = _located(_call(TURNS, node.iter), node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.AST]:
        """Create a guard before the loop, call it before the condition, delete it afterwards."""
        self.generic_visit(node)
        if _yields(node):
            return node
        name = f"__gpuconf_while_{node.lineno}_{node.col_offset}__"
        begin = ast.Assign(targets=[ast.Name(name, ast.Store())], value=_call(AGAIN))
        node.test = _located(ast.BoolOp(ast.And(), [_call(name), node.test]), node.test)
        # Skipped if an exception leaves the loop; the guard is then freed with the function.
        end = ast.Delete(targets=[ast.Name(name, ast.Del())])
        return [_located(begin, node), node, _located(end, node)]


def guarded_code(source: bytes | str, path: str, *, first: str | None = None) -> CodeType:
    """Compile a module with guarded loops; ``first`` names a function to call at its start.

    Raises the same errors as ``compile``.
    """
    tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    guarded = LoopTransformer().visit(tree)
    if first is not None:
        _call_first(guarded, first)
    return compile(ast.fix_missing_locations(guarded), path, "exec", dont_inherit=True)


def _call_first(tree: ast.Module, name: str) -> None:
    """Insert a function call after the docstring and the ``__future__`` imports."""
    place = 0
    for place, statement in enumerate(tree.body):  # the first that is neither
        is_docstring = place == 0 and isinstance(getattr(statement, "value", None), ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not is_docstring and not is_future:
            break
    else:
        place = len(tree.body)
    call = ast.Expr(_call(name))
    tree.body.insert(place, _located(call, tree.body[place]) if place < len(tree.body) else call)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(func=ast.Name(name, ast.Load()), args=list(arguments), keywords=[])


def _located(new: Any, old: ast.AST) -> Any:
    """Give ``new`` the location of ``old``, so that errors are shown there."""
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _yields(loop: ast.AST) -> bool:
    """Whether the loop's own body yields, excluding nested functions."""
    ahead = list(ast.iter_child_nodes(loop))
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _OTHER_SCOPES):
            ahead += ast.iter_child_nodes(node)
    return False
