"""Imports go down only, as rooms.yaml has it, and no two files import each other."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpuconf"
PUBLIC_FUNCTIONS = {
    *("plan", "configure", "activation", "install_session", "load_profile"),
    *("explain", "estimate", "evaluate", "predict", "fit", "oom_safe", "session_evaluate"),
    *("isolated", "max_memory", "release"),
}
# Folders in which each entry is a room.  Elsewhere a room is an entry of the package itself.
HALLS = {"machine", "support", "commands"}
FLOORS = yaml.safe_load(Path(__file__).with_name("rooms.yaml").read_text(encoding="utf-8"))
MAY_IMPORT: dict[str, set[str]] = {
    room: {each for name in (names or "").split() for each in FLOORS.get(name, {name})}
    for rooms in FLOORS.values()
    for room, names in rooms.items()
}


def imported(source: str) -> Iterator[tuple[str, str | None]]:
    """Each import in ``source`` as (module, name or None), inside functions too."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from ((node.module, alias.name) for alias in node.names)


def room_of(parts: Sequence[str]) -> str:
    """The room of a module whose dotted name below ``gpuconf`` has these parts."""
    return ".".join(parts[: 2 if parts[0] in HALLS else 1])


def room_of_file(path: Path) -> str:
    """The room that a file is in."""
    return room_of(path.relative_to(PACKAGE).with_suffix("").parts)


def imported_rooms(source: str) -> set[str]:
    """The rooms of gpuconf that ``source`` imports, wherever in it the import stands."""
    names = [name if below is None else f"{name}.{below}" for name, below in imported(source)]
    parts = [name.split(".") for name in names]
    return {
        room_of(below)
        for package, *below in parts
        if package == "gpuconf" and below and not below[0].startswith("__")
    }


# The __init__ of a hall is left out: it contains only a docstring.
SOURCES = sorted(set(PACKAGE.rglob("*.py")) - {PACKAGE / hall / "__init__.py" for hall in HALLS})


def test_imports_go_down() -> None:
    """No module imports a room that the table does not allow to its own."""
    assert len(SOURCES) > 500
    wrong = {}
    for path in SOURCES:
        room = room_of_file(path)
        found = imported_rooms(path.read_text(encoding="utf-8")) - MAY_IMPORT[room] - {room}
        wrong[str(path.relative_to(ROOT))] = found
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_the_bootstrap_stands_on_the_ground_alone() -> None:
    """What `import gpuconf.auto` may reach is no room of the floor for commands."""
    reached, ahead = set[str](), {"session"}
    while ahead:
        room = ahead.pop()
        reached.add(room)
        ahead |= MAY_IMPORT[room] - reached
    assert {"planner", "machine.cards"} <= reached
    assert not reached & {*FLOORS["support"], *FLOORS["wings"]}


def test_the_check_can_fail() -> None:
    """An import upwards, in either form and inside a function, is seen."""
    source = "def f():\n    import gpuconf.commands.cli.main\n    from gpuconf import session\n"
    assert imported_rooms(source) == {"commands.cli", "session"}
    assert not {"commands.cli", "session"} & MAY_IMPORT["planner"]


def test_the_table_lists_every_room() -> None:
    """A new room must be given its place, and a room that has gone must leave the table."""
    assert {room_of_file(path) for path in SOURCES} == set(MAY_IMPORT)


def test_no_module_bears_the_name_of_a_public_function() -> None:
    """Importing a module sets an attribute of its package, which would hide the function."""
    assert not PUBLIC_FUNCTIONS & {path.stem for path in PACKAGE.iterdir()}


# --- circles ------------------------------------------------------------------------------------


def modules_of(root: Path) -> dict[str, Path]:
    """Every module of the package below ``root`` by its dotted name; a package is its __init__."""
    modules = {}
    for path in sorted(root.joinpath("gpuconf").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return modules


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
        "from gpuconf.session.activation import text",
        "def f():\n    from gpuconf.session import activation",
        "if TYPE_CHECKING:\n    import gpuconf.session.activation",
    ],
)
def test_a_circle_is_found(back: str) -> None:
    """Through a third file, and in each form of an import."""
    sources = {
        "gpuconf": "",
        "gpuconf.session.activation": "from gpuconf.lines import Line",
        "gpuconf.lines": "import gpuconf.value",
        "gpuconf.value": back,
    }
    assert set(circle_in(graph_of(sources))) == {
        "gpuconf.session.activation",
        "gpuconf.lines",
        "gpuconf.value",
    }
