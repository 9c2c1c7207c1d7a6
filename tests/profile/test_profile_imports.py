"""What loading a profile imports: it is on the way of ``import gpuconf.auto``."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each of them costs milliseconds, and a good profile needs none of them.
FORBIDDEN = [
    *("dataclasses", "inspect", "pathlib", "logging", "json", "difflib", "argparse"),
    *("yaml", "re", "typing", "threading", "contextlib"),
    *("importlib.metadata", "importlib.resources", "jsonschema", "numpy", "tensorflow", "pynvml"),
    *("gpuconf.commands.cli", "gpuconf.planner", "gpuconf.machine.cards"),
    *("gpuconf.profile.documentation", "gpuconf.profile.shown", "gpuconf.profile.syntax_errors"),
]
LOAD = "from gpuconf.profile import load_profile; load_profile('virtual-pair', environ={})"


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter holds after ``code``."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def imported_by(code: str) -> set[str]:
    """What ``code`` imports beyond what the interpreter's own start did (editable installs)."""
    return modules_after(code) - modules_after("pass")


def test_a_good_profile_imports_nothing_heavy() -> None:
    """Of PyYAML those parts that read, and nothing of what they do without."""
    loaded = imported_by(LOAD)
    assert "gpuconf.profile._yaml.scanner" in loaded
    assert loaded.isdisjoint(FORBIDDEN)


@pytest.mark.parametrize("module", ["json", "difflib", "yaml", "re", "importlib.metadata"])
def test_the_check_can_fail(module: str) -> None:
    """A module that is imported is seen."""
    assert module in imported_by(f"{LOAD}; import {module}")
    assert module in FORBIDDEN


def test_a_mistake_may_import_more() -> None:
    """The suggestion of the nearest key is worth difflib."""
    code = (
        "from gpuconf.profile import load_profile\n"
        "try: load_profile('x', environ={})\n"
        "except ValueError: pass"
    )
    assert "difflib" in imported_by(code)
