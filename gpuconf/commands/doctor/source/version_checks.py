"""Whether a script checks the version before it uses something that only one version has."""

from __future__ import annotations

import ast
import re

from gpuconf.commands.doctor.source.flow import Function
from gpuconf.commands.doctor.source.script import Script

_VERSION = re.compile(r"version|hasattr|(?:tf|tensorflow|keras)_?[12]|\bv[12]\b", re.IGNORECASE)
_SAFE_HANDLERS = {"AttributeError", "ImportError", "ModuleNotFoundError", "Exception"}


def checks_version_first(script: Script, node: ast.AST) -> bool:
    """Whether the script checks the version first, or has a fallback."""
    child = node
    for each in script.above(node):
        if isinstance(each, ast.If) and _VERSION.search(ast.unparse(each.test)):
            return True
        if isinstance(each, ast.Try) and child in each.body and any(map(_is_safe, each.handlers)):
            return True
        if isinstance(each, Function) and _VERSION.search(each.name):
            return True
        child = each
    return False


def _is_safe(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    types = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(each, ast.Name) and each.id in _SAFE_HANDLERS for each in types)
