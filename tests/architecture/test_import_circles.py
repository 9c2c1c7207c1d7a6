"""No two files import each other, directly or through others, wherever the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def modules_of(root: Path) -> dict[str, Path]:
    """Every module of the package below ``root`` by its dotted name; a package is its __init__."""
    modules = {}
    for path in sorted(root.joinpath("gpuconf").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


def imported(source: str) -> Iterator[tuple[str, str | None]]:
    """Each import in ``source`` as (module, name or None), inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def graph_of(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which modules each module imports.

    ``from package import name`` is an import of ``package.name`` where that is a module.  The
    __init__ files that Python runs on the way are left out: they do not use what they lead to.
    """
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        graph[module] = set()
        for name, attribute in imported(source):
            below = f"{name}.{attribute}"
            found = below if below in sources else name
            if found in sources and found != module:
                graph[module].add(found)
    return graph


def circle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """The modules of one circle in their order, the first once more at the end; empty if none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(name) for name in error.args[1]]
    return []


def test_no_circle_between_files() -> None:
    """Imports inside functions and those for annotations only count too."""
    sources = {name: path.read_text("utf-8") for name, path in modules_of(ROOT).items()}
    assert len(sources) > 100
    assert circle_in(graph_of(sources)) == []


@pytest.mark.parametrize(
    "back",
    [
        "from gpuconf.report import text",
        "def f():\n    from gpuconf import report",
        "if TYPE_CHECKING:\n    import gpuconf.report",
    ],
)
def test_a_circle_is_found(back: str) -> None:
    """Through a third file, and in each form of an import."""
    sources = {
        "gpuconf": "",
        "gpuconf.report": "from gpuconf.lines import Line",
        "gpuconf.lines": "import gpuconf.value",
        "gpuconf.value": back,
    }
    assert set(circle_in(graph_of(sources))) == {"gpuconf.report", "gpuconf.lines", "gpuconf.value"}
