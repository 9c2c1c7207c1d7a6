"""Private names of Keras and TensorFlow: all of them listed, and all of them there."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.inside_tensorflow import PLAIN
from tests.programs.processes import run
from tests.support.keras_api import contract

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "gpuconf"
# Programs that import this folder of the tests.
ENVIRON = {**PLAIN, "PYTHONPATH": str(ROOT)}
# Where private names may stand: here, and where the plan binds, which must load nothing more.
HOMES = ("support/keras_api/", "backends/tensorflow/", "backends/keras_", "backends/wrapping.py")
# The folders below which a row's users are.
FOLDERS = ("", "support/", "commands/")
# Names of versions before those of the contract; there a missing one ends the program.
OLD_VERSIONS = "injected/"
# Rooms that handle models and tensors: no private attribute of anything foreign may stand there.
ROOMS = ("batching/", "callbacks/", "commands/estimate/", "images/", "commands/rehearse/agent/")
# Attributes that are private by their look alone, and ours.
NOT_THEIRS = {"_replace", "_asdict", "_fields", "_exit", "_getframe", "ImportHooks", "_lazy_init"}
# Names in users' scripts, which the doctor looks for; it never imports them.
IN_SCRIPTS = {
    "commands/doctor/source/device_init_calls.py",
    "commands/doctor/source/sessions.py",
    "commands/demo/report.py",
}

_MODULE = re.compile(
    r"(?:tensorflow\.(?:python|core|_api)|(?:tf_)?keras\.(?:src|api\._v\d))\b|src\."
)
_PRIVATE = re.compile(r"_[a-z]\w*")
LISTED = {name for row in contract.NAMES for name in row.name.split("|")}
LISTED_PLACES = {row.owner for row in contract.NAMES} | LISTED


def uses(source: str) -> Iterator[str]:
    """Private attributes of other objects, names of such in strings, and private modules."""
    tree = ast.parse(source)
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    prose |= {id(part) for node in ast.walk(tree) for part in getattr(node, "values", ())}
    own = {"self", "cls"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _PRIVATE.fullmatch(node.attr):
            if not (isinstance(node.value, ast.Name) and node.value.id in own):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and _MODULE.match(node.module or ""):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _MODULE.match(alias.name))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_name = node.value in LISTED or _MODULE.match(node.value)
            if id(node) not in prose and is_name:
                yield node.value


def is_listed(use: str) -> bool:
    """Whether the table has the name, or the module, or the name in its module."""
    if not _MODULE.match(use):
        return use in LISTED or use.startswith("_gpuconf") or use in NOT_THEIRS
    module, _, name = use.rpartition(".")
    is_attribute = any(row.owner == module and name in row.name for row in contract.NAMES)
    known = {place.partition(":")[0] for place in LISTED_PLACES}
    return is_attribute or use in LISTED_PLACES or use in known


SOURCES = {
    str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}


@pytest.mark.parametrize("file", [each for each in SOURCES if each.startswith(HOMES)])
def test_what_is_used_is_listed(file: str) -> None:
    """Every private name in the rooms that may use them stands in the table."""
    assert [use for use in uses(SOURCES[file]) if not is_listed(use)] == []


def test_private_names_stand_nowhere_else() -> None:
    """No private module, no listed name and, where models are handled, no private attribute."""
    found = {
        f"{file}: {use}"
        for file, source in SOURCES.items()
        if not file.startswith((*HOMES, OLD_VERSIONS)) and file not in IN_SCRIPTS
        for use in uses(source)
        if _MODULE.match(use)
        or (use in LISTED and use.startswith("_") and use != "__init__")
        or (file.startswith(ROOMS) and not is_listed(use))
    }
    assert found == set()


@pytest.mark.parametrize(
    "row", contract.NAMES, ids=[f"{row.owner}-{row.name}" for row in contract.NAMES]
)
def test_what_is_listed_is_used(row: contract.Name) -> None:
    """Each user of a row exists and has the name in its text."""
    for user in row.users:
        file = user.replace(".", "/") + ".py"
        (source,) = (SOURCES[each + file] for each in FOLDERS if each + file in SOURCES)
        for name in row.name.split("|"):
            assert name.partition(":")[0] in source, (user, name)


def test_the_check_can_fail() -> None:
    """Each way to use a private name is seen; our own attributes and prose are not."""
    source = (
        '"""Uses _x."""\nfrom tensorflow.python.a import b\nimport keras.src.c\n'
        'model._d\ngetattr(model, "_keras_mask")\nself._f\nplace = "tensorflow.python.g:H"\n'
    )
    assert set(uses(source)) == {
        *("tensorflow.python.a.b", "keras.src.c", "_d", "_keras_mask", "tensorflow.python.g:H")
    }
    assert [use for use in uses(source) if is_listed(use)] == ["_keras_mask"]


@pytest.mark.slow
def test_the_installed_versions_have_all(tmp_path: Path) -> None:
    """A fresh process finds every name of the table; it prints each that is missing."""
    command = [sys.executable, "-m", "tests.support.keras_api.contract_program"]
    done = run(command, tmp_path, environ=ENVIRON, timeout_s=600)
    assert done.stdout == f"all {len(contract.NAMES)} names are there\n", done.stdout + done.stderr


@pytest.mark.slow
def test_a_missing_name_is_reported(tmp_path: Path) -> None:
    """A name that no TensorFlow has is printed with what is lost, and the exit code is 1."""
    program = (
        "import tests.support.keras_api.contract_program as program\n"
        "from tests.support.keras_api.contract import Name\n"
        "rows = [Name('tensorflow.python.eager.context', '_no', (), 'all is lost', 'tensorflow')]\n"
        "print(*program._missing(rows, 'here', {}))\n"
    )
    done = run([sys.executable, "-c", program], tmp_path, environ=ENVIRON)
    assert done.stdout == "here has no tensorflow.python.eager.context _no: all is lost\n"
