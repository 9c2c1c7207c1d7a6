"""Files of the repository that programs name: each is there, also for what no test starts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("benchmarks", "docs", "gpuconf", "tests")
# docs/fences.py reads a text as if it were page.md; tests/frameworks/installed.py makes its folder.
NOT_STORED = {"page.md", ".frameworks"}


def _named(node: ast.AST, file: Path) -> Path | None:
    """The path that ``ROOT / "a" / "b"`` or ``Path(__file__)….parents[2] / "a"`` names."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        folder, name = _named(node.left, file), node.right
        if folder is None or not isinstance(name, ast.Constant):
            return None
        return folder / str(name.value)
    if isinstance(node, ast.Name) and node.id in {"ROOT", "_ROOT"}:
        return ROOT
    text = ast.unparse(node)
    if text.startswith("Path(__file__)") and ".parents[" in text and text.endswith("]"):
        return file.parents[int(text.rpartition("[")[2][:-1])]
    return None


def _paths() -> Iterator[tuple[Path, Path]]:
    for folder in FOLDERS:
        for file in sorted((ROOT / folder).rglob("*.py")):
            text = file.read_text(encoding="utf-8")
            if "ROOT" not in text and ".parents[" not in text:
                continue  # most files, and parsing all takes seconds
            for node in ast.walk(ast.parse(text)):
                path = _named(node, file)
                if path is not None and isinstance(node, ast.BinOp) and ROOT in path.parents:
                    yield file, path  # the corpus is next to the repository, if it is anywhere


def test_files_that_programs_name_are_there() -> None:
    """`make matrix` and `make slurm` once looked for files that had moved."""
    found = list(_paths())
    assert len(found) > 50
    lacking = [
        f"{file.relative_to(ROOT)}: {path.relative_to(ROOT)}"
        for file, path in found
        if path.name not in NOT_STORED and not path.exists()
    ]
    assert lacking == []
