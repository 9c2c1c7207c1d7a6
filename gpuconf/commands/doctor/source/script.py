"""A parsed script, the meaning of its names, and queries that several checks share.

``K.set_session`` is resolved to ``keras.backend.set_session``; only imports and plain renamings
(``keras = tf.keras``) are followed.  A name with two possible meanings, such as one imported in
both arms of a ``try``, stays unresolved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from gpuconf.commands.doctor.finding import Status
from gpuconf.commands.doctor.source.flow import CodeEvent, CodePath, Function, lines_through
from gpuconf.commands.doctor.source.text import SourceText

# Importing one of these imports TensorFlow.
_FRAMEWORKS = ("tensorflow", "keras", "tf_keras")
LISTS_GPUS = "tensorflow.config.list_physical_devices"
SETS_GROWTH = "tensorflow.config.set_memory_growth"
SETS_LIMIT = "tensorflow.config.set_logical_device_configuration"
SETS_VISIBLE = "tensorflow.config.set_visible_devices"
_GRAPH_MODE = {
    "tensorflow.compat.v1.disable_eager_execution",
    "tensorflow.compat.v1.disable_v2_behavior",
}
_GPUCONF_CALLS = ("gpuconf.configure", "gpuconf.install_session")
# tf.keras is Keras; names that moved out of `experimental` also exist under the old name.
_SAME = (
    (re.compile(r"^tensorflow\.compat\.v2\b"), "tensorflow"),
    (re.compile(r"^tensorflow\.python\.keras\b"), "keras"),
    (re.compile(r"^tensorflow\.(?:_api\.v2\.)?keras\b"), "keras"),
    (re.compile(r"^tf_keras\b"), "keras"),
    (re.compile(r"^keras\.(?:src|api)\b"), "keras"),
    (re.compile(r"^tensorflow\.config\.experimental\b"), "tensorflow.config"),
    (re.compile(r"^tensorflow\.compat\.v1\.config\b(?:\.experimental\b)?"), "tensorflow.config"),
    (re.compile(r"^tensorflow\.compat\.v1\.test\b"), "tensorflow.test"),
    (re.compile(r"\.set_virtual_device_configuration$"), ".set_logical_device_configuration"),
    (re.compile(r"^tensorflow\.config\.list_gpus$"), "tensorflow.config.list_physical_devices"),
)


class _Names:
    """The meanings of the names in one file, with the whole file as one scope."""

    def __init__(self, tree: ast.AST) -> None:
        self._meanings: dict[str, set[str]] = {}
        renamings: list[tuple[str, ast.expr]] = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                self._take_import(node)
            elif isinstance(node, ast.ImportFrom):
                self._take_import_from(node)
            elif isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]
                if isinstance(target, ast.Name):
                    renamings.append((target.id, node.value))
        for node in ast.walk(tree):
            if isinstance(node, ast.arg) and node.arg in self._meanings:
                self._meanings[node.arg].add("")  # a parameter of that name can be anything
        for name, value in renamings:
            meaning = self.plain(value) if isinstance(value, ast.Attribute | ast.Name) else ""
            if meaning or name in self._meanings:
                # Otherwise it is an ordinary variable, which does not matter here.
                self._meanings.setdefault(name, set()).add(meaning)

    def _take_import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.asname:
                self._meanings.setdefault(alias.asname, set()).add(alias.name)
            else:
                root = alias.name.partition(".")[0]
                self._meanings.setdefault(root, set()).add(root)

    def _take_import_from(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        for alias in node.names:
            meaning = f"{module}.{alias.name}"
            self._meanings.setdefault(alias.asname or alias.name, set()).add(meaning)

    def of(self, node: ast.AST | None) -> str:
        """The dotted name that ``node`` refers to, in canonical form; empty if unknown."""
        plain = self.plain(node)
        for pattern, replacement in _SAME:
            plain = pattern.sub(replacement, plain)
        return plain

    def plain(self, node: ast.AST | None) -> str:
        """The dotted name that ``node`` refers to, as the file's imports spell it."""
        attributes: list[str] = []
        while isinstance(node, ast.Attribute):
            attributes.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        meanings = self._meanings.get(node.id, set())
        if len(meanings) != 1:
            return ""
        (root,) = meanings
        return ".".join([root, *reversed(attributes)]) if root else ""

    def alias(self, module: str, otherwise: str) -> str:
        """The name under which the file imports ``module``, or ``otherwise``."""
        known = (name for name, meanings in self._meanings.items() if meanings == {module})
        return min(known, key=len, default=otherwise)


class ScriptProblem(NamedTuple):
    """A check's result: the node, a short description, why it matters, and the rewrite.

    ``what`` follows the place in one line; problems with the same ``what`` are reported once.
    """

    id: str
    status: Status
    node: ast.AST
    what: str
    why: tuple[str, ...]
    fix: str | None


class Script:
    """A script's tree, its names, and the paths through it."""

    def __init__(self, source: SourceText, tree: ast.Module) -> None:
        self.source = source
        self.tree = tree
        self.names = _Names(tree)
        self.lines: tuple[CodePath, ...] = lines_through(tree)
        self.tf = self.names.alias("tensorflow", "tf")
        self._parents = {
            child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)
        }
        self._values: dict[str, list[ast.expr | None]] = {}
        self._note_bindings()
        self.is_graph_mode = any(name in _GRAPH_MODE for _, name in self.calls())

    def calls(self) -> Iterator[tuple[ast.Call, str]]:
        """Every call in the file, with the name of the function if known."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call):
                yield node, self.names.of(node.func)

    def place(self, node: ast.AST) -> str:
        """File and line of ``node``."""
        return self.source.place(getattr(node, "lineno", 1))

    @property
    def first_place(self) -> str:
        """Where the first line belongs: below the docstring and ``from __future__ import …``."""
        body = self.tree.body
        start = 1 if ast.get_docstring(self.tree, clean=False) is not None else 0
        futures = [number for number, each in enumerate(body) if _is_future(each)]
        start = max([start, *(number + 1 for number in futures)])
        if start >= len(body) or (start == 0 and body[0].lineno == 1):
            return "as the first line"
        line = min([body[start].lineno, *(each.lineno for each in _decorators(body[start]))])
        return f"above {self.source.place(line)} ({ast.unparse(body[start]).partition(chr(10))[0]})"

    def above(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes that contain ``node``, innermost first."""
        while (parent := self._parents.get(node)) is not None:
            yield parent
            node = parent

    def function_of(self, node: ast.AST) -> Function | None:
        """The function that contains ``node``; None at top level."""
        return next((each for each in self.above(node) if isinstance(each, Function)), None)

    def uses_gpuconf_before(self, line: CodePath, index: int) -> bool:
        """Whether gpuconf is active when step ``index`` of ``line`` runs."""
        return any(self.starts_gpuconf(step.node) for step in line.steps[:index])

    def starts_gpuconf(self, node: ast.AST) -> bool:
        """Whether this is ``import gpuconf.auto`` or an equivalent."""
        if isinstance(node, ast.Import):
            return any(alias.name == "gpuconf.auto" for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            taken = {f"{node.module}.{alias.name}" for alias in node.names}
            return node.module == "gpuconf.auto" or "gpuconf.auto" in taken
        return isinstance(node, ast.Call) and self.names.of(node.func) in _GPUCONF_CALLS

    # --- values ---------------------------------------------------------------------------------

    def values_of(self, name: str) -> list[ast.expr | None]:
        """The values that the file assigns to ``name``; None for a loop variable or parameter."""
        return self._values.get(name, [])

    def value(self, node: ast.expr | None) -> ast.expr | None:
        """``node``, or its value if it is a variable with a single value."""
        if isinstance(node, ast.Name):
            values = self.values_of(node.id)
            if len(values) == 1 and values[0] is not None:
                return values[0]
        return node

    def constant(self, node: ast.expr | None) -> object:
        """The value of a literal, even through a variable and ``str(…)``; None if unknown."""
        node = self.value(node)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str":
            inner = self.constant(node.args[0]) if len(node.args) == 1 else None
            return None if inner is None else str(inner)
        return node.value if isinstance(node, ast.Constant) else None

    def is_bound_in(self, name: str, place: ast.AST) -> bool:
        """Whether ``place`` assigns to ``name``."""
        return any(
            isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
            for node in ast.walk(place)
        )

    def _note_bindings(self) -> None:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._bind(target, node.value)
            elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
                self._bind(node.target, node.value)
            elif isinstance(node, ast.AugAssign):
                self._bind(node.target, ast.BinOp(node.target, node.op, node.value))
            elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
                self._bind(node.target, None)
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                self._bind(node.optional_vars, None)
            elif isinstance(node, ast.arg):
                self._values.setdefault(node.arg, []).append(None)

    def _bind(self, target: ast.expr, value: ast.expr | None) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            same = isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts)
            parts = value.elts if same and isinstance(value, ast.Tuple | ast.List) else None
            for number, each in enumerate(target.elts):
                self._bind(each, parts[number] if parts else value)
        elif isinstance(target, ast.Starred):
            self._bind(target.value, value)
        elif isinstance(target, ast.Name):
            self._values.setdefault(target.id, []).append(value)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"


def _decorators(node: ast.stmt) -> list[ast.expr]:
    return node.decorator_list if isinstance(node, Function | ast.ClassDef) else []


def imported_modules(node: ast.AST) -> tuple[str, ...]:
    """The modules that an import statement names."""
    if isinstance(node, ast.Import):
        return tuple(alias.name for alias in node.names)
    if isinstance(node, ast.ImportFrom) and not node.level and node.module:
        return (node.module, *(f"{node.module}.{alias.name}" for alias in node.names))
    return ()


def imports_tensorflow(node: ast.AST) -> bool:
    """Whether this import loads TensorFlow, directly or through Keras or, say, tensorflow_hub."""
    return any(module.startswith(_FRAMEWORKS) for module in imported_modules(node))


def first_in(line: CodePath, index: int, wanted: list[CodeEvent]) -> CodeEvent | None:
    """The first of ``wanted`` that has certainly run before step ``index`` of ``line``."""
    return next((step for step in wanted if step.surely_precedes(line.steps[index])), None)


def argument(call: ast.Call, position: int, keyword: str) -> ast.expr | None:
    """An argument given by position or by name; None if absent."""
    for each in call.keywords:
        if each.arg == keyword:
            return each.value
    positional = call.args[: position + 1]
    if len(positional) <= position or any(isinstance(each, ast.Starred) for each in positional):
        return None
    return positional[position]
