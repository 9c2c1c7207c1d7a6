"""Break the package line by line, and see a test fail: `python -m tests.mutants cli leases`.

A folder is one of gpuconf's, `.` means its own files.  Each file is broken in one place or more,
chosen by the file's name, so that another run chooses the same.  Everything is done in a copy of
the working tree.  For each mutant the quick tests that name its module run first, then those of
its folder; the first failure ends it.  Those that survive meet the slow tests at the end.  Where
tests take longer than their time, that is neither a failure nor a pass, and has its own column.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
QUICK = "not slow and not gpu and not nightly"
SLOW = "slow and not gpu and not nightly"
TOO_LONG = "(took too long)"
_OPPOSITES: dict[type[ast.AST], type[ast.AST]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE,
    ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
}  # fmt: skip
# Messages and types: what is below these nodes is not broken.
_SKIPPED_NODES = (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
_SKIPPED_FIELDS = ("annotation", "returns", "decorator_list", "bases")
_QUESTIONS = (ast.Name, ast.Attribute, ast.Call)


class Mutant(NamedTuple):
    """One place of a file, and what is there instead."""

    file: str
    line: int
    start: int
    end: int
    before: str
    after: str

    def __str__(self) -> str:
        before, after = (re.sub(r"\s+", " ", code)[:70] for code in (self.before, self.after))
        return f"{self.file}:{self.line}: `{before}` → `{after}`"


def mutants_of(file: Path, name: str) -> list[Mutant]:
    """All mutants of a file."""
    source = file.read_bytes()
    starts = [0]
    for row in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))
    found = []
    for node, new in _changes(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        after = f"({ast.unparse(new)})" if isinstance(new, ast.expr) else ast.unparse(new)
        found.append(Mutant(name, node.lineno, start, end, source[start:end].decode(), after))
    return found


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, ast.AST]]:
    """Each expression or statement below ``node`` that can be broken, and the broken one."""
    for field, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else [value]:
            if field in _SKIPPED_FIELDS or isinstance(child, _SKIPPED_NODES):
                continue
            if not isinstance(child, ast.AST) or "TYPE_CHECKING" in ast.unparse(child)[:20]:
                continue
            if isinstance(child, (ast.If, ast.While)) and isinstance(child.test, _QUESTIONS):
                yield child.test, ast.UnaryOp(ast.Not(), child.test)
            new = _broken(child)
            if new is not None and isinstance(child, (ast.expr, ast.stmt)):
                yield child, new
            yield from _changes(child)


def _broken(node: ast.AST) -> ast.AST | None:
    new: ast.AST | None = None
    match node:
        case ast.Compare(left, [operator], right):
            new = ast.Compare(left, [_opposite(operator)], right)
        case ast.BoolOp(operator, values):
            new = ast.BoolOp(_opposite(operator), values)
        case ast.BinOp(left, operator, right) if _is_sum(node):
            new = ast.BinOp(left, _opposite(operator), right)
        case ast.UnaryOp(ast.Not(), operand):
            new = operand
        case ast.Constant(bool() as value):
            new = ast.Constant(not value)
        case ast.Constant(int() as value) if value < 10:
            new = ast.Constant(value + 1)  # larger ones are sizes and times, often a choice
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            new = ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Delete() | ast.Continue():
            new = ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            new = ast.Pass()
        case ast.IfExp(test, body, other):
            new = ast.IfExp(test, other, body)
    return new


def _opposite(operator: Any) -> Any:
    return _OPPOSITES[type(operator)]()


def _is_sum(node: ast.BinOp) -> bool:
    """Of numbers: no text or list is put together."""
    parts = (node.left, node.right)
    texts = any(isinstance(getattr(part, "value", None), str) for part in parts)
    lists = any(isinstance(part, (ast.JoinedStr, ast.List, ast.Tuple)) for part in parts)
    return type(node.op) in _OPPOSITES and not texts and not lists


def chosen(tree: Path, folder: str, most: int, seed: str) -> list[Mutant]:
    """Some ``most`` mutants of a folder: one of each file or more, or of as many files."""
    root = tree / "gpuconf" / folder
    files = sorted(root.glob("*.py") if folder == "." else root.rglob("*.py"))
    everything = [mutants_of(file, str(file.relative_to(tree))) for file in files]
    everything = [found for found in everything if found]
    for found in everything:
        random.Random(found[0].file + seed).shuffle(found)
    random.Random(seed).shuffle(everything)
    each = -(-most // max(1, len(everything)))
    return [mutant for found in everything[:most] for mutant in found[:each]][:most]


class Tests:
    """The test files of a copy, and which of them know a module."""

    def __init__(self, tree: Path) -> None:
        self._home = tree / "tests"
        self._texts = {file: file.read_text("utf-8") for file in self._home.rglob("*.py")}

    def of(self, mutant: Mutant) -> tuple[list[str], list[str], list[str]]:
        """Those of its folder that name its module, the others of its folder, those elsewhere.

        A test that imports a helper which names the module names it, too.
        """
        *rooms, stem = Path(mutant.file).with_suffix("").parts
        if stem == "__init__":
            stem = rooms.pop()
        dotted = ".".join(rooms)
        pattern = rf"{dotted}\.{stem}\b|from {dotted} import [^\n]*\b{stem}\b|/{stem}\.py\b"
        naming = {file for file, text in self._texts.items() if re.search(pattern, text)}
        helpers = "|".join(each.stem for each in naming if not each.name.startswith("test_"))
        home = self._home / "/".join(rooms[1:2])
        near, others, far = list[str](), list[str](), list[str]()
        for file, text in sorted(self._texts.items()):
            is_near = home in file.parents if rooms[1:] else file.parent == home
            is_near |= file.name.startswith(f"test_{rooms[-1]}")
            if not file.name.startswith("test_"):
                continue
            if is_near and file.stem.startswith(f"test_{stem}"):
                near.insert(0, str(file))
            elif file in naming or (helpers and re.search(rf"\b({helpers})\b", text)):
                (near if is_near else far).append(str(file))
            elif is_near:
                others.append(str(file))
        return near, others, far


def killer(tree: Path, mutant: Mutant, marks: str, *groups: Sequence[str]) -> str:
    """The first test that fails with the mutant; nothing if none does."""
    file = tree / mutant.file
    source, status = file.read_bytes(), file.stat()
    for files in filter(None, groups):
        failed = " "
        while failed:
            file.write_bytes(source[: mutant.start] + mutant.after.encode() + source[mutant.end :])
            try:
                failed = _first_failure(tree, marks, files)
            finally:
                file.write_bytes(source)
                os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            if failed and not _fails_anyway(tree, failed):
                return failed
    return ""


def _first_failure(tree: Path, marks: str, tests: Sequence[str]) -> str:
    """The name of the first test that fails; nothing if all pass."""
    command = [sys.executable, "-m", "pytest", "-xq", "-p", "no:xdist", "--tb=no", "-m", marks]
    skipped = [f"--deselect={test}" for test, fails in _FAILS_ANYWAY.items() if fails]
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    with subprocess.Popen(
        [*command, *skipped, *tests], cwd=tree, env=environ, stdout=subprocess.PIPE, text=True,
        stderr=subprocess.STDOUT, start_new_session=True,
    ) as child:  # fmt: skip
        try:
            output, _ = child.communicate(timeout=90 if marks == QUICK else 300)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return TOO_LONG
    # A parameter's name may have spaces.
    found = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return "" if child.returncode in (0, 5) else (found or [output[-300:]])[0]


_FAILS_ANYWAY: dict[str, bool] = {}


def _fails_anyway(tree: Path, test: str) -> bool:
    """Whether it fails without a mutant, too: in a copy, or on this machine."""
    if test not in _FAILS_ANYWAY:
        _FAILS_ANYWAY[test] = "::" in test and bool(_first_failure(tree, "not gpu", [test]))
    return _FAILS_ANYWAY[test]


def main() -> int:
    """Print each mutant with the test that kills it, the survivors, and a row for each folder."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--most", type=int, default=20, help="mutants of a folder")
    parser.add_argument("--seed", default="", help="break other places")
    parser.add_argument("--quick", action="store_true", help="no slow tests for those that survive")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder) / "tree"
        leave_out = shutil.ignore_patterns(".venv*", ".git", ".*_cache", "build", "dist")
        shutil.copytree(ROOT, tree, ignore=leave_out, symlinks=True)
        tests = Tests(tree)
        all_of, left, late = Counter[str](), Counter[str](), Counter[str]()
        survivors = []
        for name in options.folders:
            for mutant in chosen(tree, name, options.most, options.seed):
                all_of[name] += 1
                killed_by = killer(
                    tree, mutant, QUICK, *tests.of(mutant)[: 3 if name == "." else 2]
                )
                print(f"{mutant} {killed_by or 'survives the quick tests'}", flush=True)
                if killed_by in ("", TOO_LONG):
                    survivors.append((name, mutant, killed_by))
        for name, mutant, quickly in survivors:
            near, others, far = tests.of(mutant)
            groups = [] if options.quick else [near, far, others]
            killed_by = killer(tree, mutant, SLOW, *groups) or quickly
            print(f"{mutant} {killed_by or 'survives'}", flush=True)
            left[name] += not killed_by
            late[name] += killed_by == TOO_LONG
    print("| folder | mutants | killed | took too long | survived |\n|---|---|---|---|---|")
    for name, count in all_of.items():
        killed = count - left[name] - late[name]
        print(f"| {name} | {count} | {killed} | {late[name]} | {left[name]} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
