"""Imports go down only: rooms.yaml, held against every import statement."""

from __future__ import annotations

import ast
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpuconf"
PUBLIC_FUNCTIONS = {
    *("plan", "configure", "activation", "install_session", "load_profile"),
    *("explain", "estimate", "evaluate", "predict", "fit", "oom_safe", "session_evaluate"),
}
FLOORS = yaml.safe_load(Path(__file__).with_name("rooms.yaml").read_text(encoding="utf-8"))
PLANNING = FLOORS.pop("planning").split()
GROUPS = {
    "ground": set(FLOORS["ground"]),
    "middle": set(FLOORS["middle"]),
    "planning": set(PLANNING),
}
MAY_IMPORT: dict[str, set[str]] = {
    room: {each for name in (names or "").split() for each in GROUPS.get(name, {name})}
    for rooms in FLOORS.values()
    for room, names in rooms.items()
}


def room_of(path: Path) -> str:
    """The room a file is in: the first part of its path below gpuconf/."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(source: str) -> set[str]:
    """The rooms of gpuconf that ``source`` imports, wherever in it the import stands."""
    rooms = set()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "gpuconf" and len(parts) > 1 and not parts[1].startswith("__"):
                rooms.add(parts[1])
    return rooms


SOURCES = sorted(PACKAGE.rglob("*.py"))


def test_imports_go_down() -> None:
    """No module imports a room that the table does not allow to its own."""
    assert len(SOURCES) > 500
    wrong = {}
    for path in SOURCES:
        room = room_of(path)
        found = imported_rooms(path.read_text(encoding="utf-8")) - MAY_IMPORT[room] - {room}
        wrong[str(path.relative_to(ROOT))] = found
    assert {path: rooms for path, rooms in wrong.items() if rooms} == {}


def test_the_bootstrap_stands_on_the_ground_alone() -> None:
    """What `import gpuconf.auto` may reach is no room of the middle floor.

    The exception hooks are left out: only those who ask for them load them.
    """
    reached, ahead = set[str](), {"bootstrap", "framework_hooks", "binding", "backends"}
    while ahead:
        room = ahead.pop()
        reached.add(room)
        ahead |= MAY_IMPORT[room] - reached
    assert not reached & GROUPS["middle"]


def test_the_check_can_fail() -> None:
    """An import upwards, in either form and inside a function, is seen."""
    source = "def f():\n    import gpuconf.cli.main\n    from gpuconf import bootstrap\n"
    assert imported_rooms(source) == {"cli", "bootstrap"}
    assert not {"cli", "bootstrap"} <= MAY_IMPORT["planner"]


def test_the_table_lists_every_room() -> None:
    """A new room must be given its place, and a room that has gone must leave the table."""
    assert {room_of(path) for path in SOURCES} == set(MAY_IMPORT)


def test_no_module_bears_the_name_of_a_public_function() -> None:
    """Importing a module sets an attribute of its package, which would hide the function."""
    assert not PUBLIC_FUNCTIONS & {room_of(path) for path in SOURCES}
