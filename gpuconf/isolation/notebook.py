"""The notebook part of a call: a cell as a function of its variables, and what it displays."""

from __future__ import annotations

import ast
import symtable
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpuconf.errors import UsageError

# What certainly sets its names, unlike a loop or an `if`.
_SETS_NAMES = (ast.Assign, ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)


def names_read(source: str) -> set[str]:
    """Return the global names that code reads before it sets them, in functions and classes too."""
    names, own = set[str](), set[str]()
    for statement in ast.parse(source).body:
        table = symtable.symtable(ast.unparse(statement), "<cell>", "exec")
        changed = [each for each in ast.walk(statement) if isinstance(each, ast.AugAssign)]
        names |= {each.target.id for each in changed if isinstance(each.target, ast.Name)} - own
        names |= set(_names_in(table)) - own
        if isinstance(statement, _SETS_NAMES):
            own |= {each.get_name() for each in table.get_symbols() if not each.is_referenced()}
    return names


def _names_in(table: symtable.SymbolTable) -> Iterator[str]:
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (table.get_type() == "module" or symbol.is_global()):
            yield symbol.get_name()
    for inner in table.get_children():
        yield from _names_in(inner)


def run_cell(source: str, file: str, outputs: Sequence[str], /, **inputs: Any) -> dict[str, Any]:
    """Run code as a cell with the variables ``inputs``; return the variables ``outputs``.

    The value of the last line is displayed if that line does not end in a semicolon. Raises
    UsageError if the code has not set one of ``outputs``.
    """
    from IPython.core.getipython import get_ipython
    from IPython.display import display

    variables = vars(sys.modules["__main__"])  # so that classes are pickled as a notebook's
    variables.update({"get_ipython": get_ipython, "display": display, **inputs})
    tree = ast.parse(source, file)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, file, "exec"), variables)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), file, "eval"), variables)
        if value is not None and not source.rstrip().endswith(";"):
            display(value)  # type: ignore[no-untyped-call]
    missing = [name for name in outputs if name not in variables]
    if missing:
        raise UsageError(f"-o {','.join(outputs)}: the cell has not set {', '.join(missing)}")
    return {name: variables[name] for name in outputs}


def forward_displays(send: Callable[[Any], object]) -> None:
    """Pass what this process displays to ``send``, as arguments of :func:`show`."""
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Forwarding(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, *_: Any, **options: Any) -> None:
            send((data, metadata, options))

    config = Config({"HistoryManager": {"enabled": False}})
    InteractiveShell.instance(config=config, display_pub_class=Forwarding)


def show_figures() -> None:
    """Display the figures that are still open, as IPython does at the end of a cell."""
    inline = sys.modules.get("matplotlib_inline.backend_inline")
    if inline is not None:
        inline.flush_figures()


def show(shown: Any) -> None:
    """Display here what the other process displayed."""
    from IPython.display import publish_display_data

    data, metadata, options = shown
    publish_display_data(data, metadata, **options)  # type: ignore[no-untyped-call]
