"""What a name in the source stands for: ``K.set_session`` is ``keras.backend.set_session``.

Only imports and plain renamings (``keras = tf.keras``) are followed.  A name that may stand for
two things, such as one imported in both arms of a ``try``, stands for none here.
"""

from __future__ import annotations

import ast
import re

# tf.keras is Keras; names that moved out of `experimental` are still found under both.
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


class Names:
    """What the names of one file stand for, the whole file taken as one scope."""

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
                self._meanings[node.arg].add("")  # a parameter of that name may be anything
        for name, value in renamings:
            meaning = self._plain(value) if isinstance(value, ast.Attribute | ast.Name) else ""
            if meaning or name in self._meanings:
                # Otherwise an ordinary variable, which is no business of ours.
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
        """The dotted name that ``node`` stands for, in its one spelling; empty if unknown."""
        plain = self._plain(node)
        for pattern, replacement in _SAME:
            plain = pattern.sub(replacement, plain)
        return plain

    def _plain(self, node: ast.AST | None) -> str:
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
        """The name under which the file knows ``module``, or ``otherwise``."""
        known = (name for name, meanings in self._meanings.items() if meanings == {module})
        return min(known, key=len, default=otherwise)
