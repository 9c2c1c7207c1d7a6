"""Imports go down only: the table of docs/design.md, held against every import statement."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpuconf"

# A room may import the rooms on its line and itself, nothing else of gpuconf.
GROUND = {
    "errors",
    "units",
    "arguments",
    "pipeline_calls",
    "terminal",
    "settings",
    "environ",
    "callsite",
    "import_hook",
    "command_line",
    "state_note",
    "worker_process",
    "ray_address",
    "json_shape",
    "json_values",
    "rich_display",
    "version",
    "carried",
    "records",
    "patterns",
    "locks",
}
# What any wing may stand on; the way of `import gpuconf.auto` may not.
MIDDLE = {"reporting", "children", "keras_api", "messages", "notebook", "wire"}
# What makes a plan, for those who show one or keep to one.
PLANNING = {"hardware", "leases", "profile", "planner", "machine_plan", "run_plan"}
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "records": set(),
    "patterns": set(),
    "locks": set(),
    "units": {"patterns", "records"},
    "arguments": {"errors", "units"},
    "pipeline_calls": set(),
    "terminal": set(),
    "rich_display": {"terminal"},
    "settings": {"records"},
    "callsite": {"records"},
    "import_hook": {"errors", "locks", "records"},
    "state_note": {"records"},
    "worker_process": set(),
    "ray_address": set(),
    "json_shape": {"records"},
    "version": set(),
    "json_values": {"json_shape"},
    "carried": {"bootstrap", "errors"},  # in somebody else's program, which it hands over
    "environ": {"errors", "records", "settings", "state_note"},
    "command_line": {"errors", "units"},
    "hardware": GROUND,
    "profile": GROUND,
    "planner": GROUND | {"hardware", "profile"},
    "backends": GROUND | {"hardware", "planner", "profile"},
    "report": GROUND | {"planner", "profile"},
    "leases": GROUND | {"hardware"},
    "shares": GROUND | {"hardware", "profile"},
    "remedies": GROUND | {"profile", "planner"},
    "machine_plan": GROUND
    | {"hardware", "profile", "planner", "backends", "leases", "shares", "remedies"},
    "plan_maker": GROUND
    | {"hardware", "profile", "planner", "machine_plan", "own_leases", "shares"},
    "own_leases": GROUND | {"hardware", "leases", "machine_plan", "planner"},
    "all_or_nothing": {"errors", "locks"},
    "own_environment": GROUND | {"hardware", "profile", "backends"},
    "run_plan": GROUND | {"hardware", "profile", "planner"},
    "carried_plans": GROUND | {"carried", "profile", "planner", "plan_maker", "run_plan"},
    "binding": GROUND
    | {"hardware", "profile", "planner", "machine_plan", "report"}
    | {"all_or_nothing", "own_environment", "plan_maker", "tripwire"},
    "tripwire": GROUND,
    "framework_hooks": GROUND | {"profile", "backends", "binding", "tripwire"},
    "bootstrap": GROUND
    | {"hardware", "profile", "planner", "machine_plan", "report"}
    | {"binding", "framework_hooks", "run_plan", "carried_plans"},
    "exception_hooks": {"environ", "errors", "terminal", "diagnosis"},
    "auto": {"bootstrap", "errors", "exception_hooks", "terminal"},
    "ray": GROUND | {"profile", "bootstrap", "shares"},
    "pyinstaller_hook": {"profile"},
    # The middle floor.
    "wire": set(),
    "notebook": set(),
    "reporting": GROUND,
    "children": GROUND,
    "keras_api": GROUND,
    "messages": GROUND | {"notebook"},
    # The wings.
    "simcard": GROUND | {"children", "hardware"},
    "images": GROUND,
    "callbacks": GROUND | MIDDLE,
    "diagnosis": GROUND | MIDDLE,
    "demo": GROUND | MIDDLE | {"hardware"},
    "doctor": GROUND | MIDDLE | PLANNING | {"auto", "backends", "shares"},
    "holdings": GROUND | MIDDLE | {"hardware", "leases"},
    "nodes": GROUND | MIDDLE,
    "footprint": GROUND | MIDDLE | PLANNING | {"simcard", "auto"},
    "batching": GROUND | MIDDLE | {"backends", "callbacks", "diagnosis", "footprint"},
    "rehearsal": GROUND | MIDDLE | PLANNING | {"simcard", "auto"},
    "running": GROUND | MIDDLE | PLANNING | {"own_environment", "own_leases", "carried"},
    "cli": GROUND
    | MIDDLE
    | PLANNING
    | {"demo", "diagnosis", "doctor", "footprint", "holdings", "nodes", "simcard", "rehearsal"}
    | {"running"},
    "ipython": GROUND
    | MIDDLE
    | PLANNING
    | {"bootstrap", "cli", "diagnosis", "doctor", "exception_hooks", "footprint", "holdings"}
    | {"report", "running"},
    "__main__": {"cli"},
    "__init__": {
        *("errors", "version", "profile", "planner", "report"),
        *("bootstrap", "diagnosis", "footprint", "batching"),
    },
}
PUBLIC_FUNCTIONS = {
    *("plan", "configure", "activation", "install_session", "load_profile"),
    *("explain", "estimate", "evaluate", "predict", "fit", "oom_safe", "session_evaluate"),
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


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path: Path) -> None:
    """No module imports a room that the table does not allow to its own."""
    room = room_of(path)
    allowed = MAY_IMPORT[room] | {room}
    assert imported_rooms(path.read_text(encoding="utf-8")) <= allowed


def test_the_bootstrap_stands_on_the_ground_alone() -> None:
    """What `import gpuconf.auto` may reach is no room of the middle floor.

    The exception hooks are left out: only those who ask for them load them.
    """
    reached, ahead = set[str](), {"bootstrap", "framework_hooks", "binding", "backends"}
    while ahead:
        room = ahead.pop()
        reached.add(room)
        ahead |= MAY_IMPORT[room] - reached
    assert reached & (MIDDLE | {"planner", "hardware"}) == {"planner", "hardware"}


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
