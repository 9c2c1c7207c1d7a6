"""The loops of the user's own code, rewritten: before each turn a guard is asked for it.

``for x in ITER`` becomes ``for x in __gpuconf_turns__(ITER)``; ``while C`` becomes ``while g() and
(C)`` where ``g = __gpuconf_again__()`` stands before it.  Everything else stays, line numbers
included.  AutoGraph reads a function's source from its file, and so never meets any of this.

Left alone are comprehensions, ``async for``, and loops that yield: these give data to a loop that
is somewhere else.
"""

from __future__ import annotations

import ast
from types import CodeType
from typing import Any

TURNS, AGAIN = "__gpuconf_turns__", "__gpuconf_again__"  # in builtins, put there by `guards`
_OTHER_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


class LoopTransformer(ast.NodeTransformer):
    """Guards all loops of a tree; may stand in IPython's ``ast_transformers`` as it is."""

    def visit_For(self, node: ast.For) -> ast.AST:
        """Put the guard around what is iterated."""
        self.generic_visit(node)
        if not _yields(node):
            node.iter = _located(_call(TURNS, node.iter), node.iter)
        return node

    def visit_While(self, node: ast.While) -> ast.AST | list[ast.AST]:
        """Make a guard before the loop, ask it before the condition, and drop it after the loop."""
        self.generic_visit(node)
        if _yields(node):
            return node
        name = f"__gpuconf_while_{node.lineno}_{node.col_offset}__"
        begin = ast.Assign(targets=[ast.Name(name, ast.Store())], value=_call(AGAIN))
        node.test = _located(ast.BoolOp(ast.And(), [_call(name), node.test]), node.test)
        # Not reached where the loop is left by an exception; the function's end drops it then.
        end = ast.Delete(targets=[ast.Name(name, ast.Del())])
        return [_located(begin, node), node, _located(end, node)]


def guarded_code(source: bytes | str, path: str, *, first: str | None = None) -> CodeType:
    """Compile a module with its loops guarded; ``first`` names a function to call at its beginning.

    Raises what ``compile`` raises.
    """
    tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    guarded = LoopTransformer().visit(tree)
    if first is not None:
        _call_first(guarded, first)
    return compile(ast.fix_missing_locations(guarded), path, "exec", dont_inherit=True)


def _call_first(tree: ast.Module, name: str) -> None:
    """Call a function after the docstring and the imports from ``__future__``."""
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
    """``new`` at the place of ``old``: an error in it is shown there."""
    return ast.fix_missing_locations(ast.copy_location(new, old))


def _yields(loop: ast.AST) -> bool:
    """Whether the loop's own body yields, nested functions left out."""
    ahead = list(ast.iter_child_nodes(loop))
    while ahead:
        node = ahead.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, _OTHER_SCOPES):
            ahead += ast.iter_child_nodes(node)
    return False
