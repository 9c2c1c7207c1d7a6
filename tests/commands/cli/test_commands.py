"""The table of commands: what --help lists, and what each command imports."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

import pytest

import gpuconf.commands.cli
from gpuconf.support.command_line import COMMANDS
from gpuconf.support.reporting.lines import fitted
from tests.commands.cli.commands import run_commands
from tests.programs.processes import run_python

_LOADED = """
import sys
from gpuconf.commands.cli.main import main
try:
    main({arguments!r})
finally:
    print(*sys.modules)
"""
_ARGPARSE = """
import argparse, sys
argparse.ArgumentParser().format_help()
print(*sys.modules)
"""
FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "jax", "jaxlib", "torch", "numpy"}
# What takes long to import, by the commands that do without.
_IN_NO_LIST = {"rich", "yaml", "json", "pathlib", "dataclasses", "difflib", "subprocess"}
_NOT_LOADED = {
    "--version": _IN_NO_LIST,
    "--help": _IN_NO_LIST,
    "plan": {"rich", "dataclasses", "inspect", "difflib", "gpuconf.commands.cli.documents"},
    "ps": {
        "rich.console", "yaml", "dataclasses", "inspect", "difflib",
        "gpuconf.planner", "gpuconf.profile",
    },
    "profiles list": set(),
    "doctor -v --script train.py": {
        "rich", "socket", "difflib",
        "gpuconf.commands.cli.documents", "gpuconf.commands.doctor.page",
    },
}  # fmt: skip


def all_loaded_by(folder: Path, *arguments: str) -> set[str]:
    """The modules that a fresh process has loaded after the command."""
    out = run_python(_LOADED.format(arguments=arguments), folder)
    return set(out.splitlines()[-1].split())


def loaded_by(folder: Path, *arguments: str) -> set[str]:
    """Those of gpuconf."""
    loaded = all_loaded_by(folder, *arguments)
    return {name for name in loaded if name.partition(".")[0] == "gpuconf"}


def test_the_table_lists_every_command_of_the_folder() -> None:
    """A module that adds arguments is a command, and each name in the table is such a module."""
    names = [module.name for module in pkgutil.iter_modules(gpuconf.commands.cli.__path__)]
    modules = {name: importlib.import_module(f"gpuconf.commands.cli.{name}") for name in names}
    assert {name for name in names if hasattr(modules[name], "add_arguments")} == set(COMMANDS)


def test_help_lists_every_command_with_its_line(tmp_path: Path) -> None:
    """Though no command's module has been imported."""
    (done,) = run_commands(tmp_path, ["--help"], environ={"COLUMNS": "200"})
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    assert all(f"{name} {about}" in lines for name, about in COMMANDS.items())


def test_a_command_in_a_sentence_is_not_broken() -> None:
    """A terminal gets every command of ours as one line, to be copied."""
    for name in COMMANDS:
        command = f"gpuconf {name} a-profile-of-some-length"
        assert command in fitted(f"see what this comes to: {command}", 30).splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "most"), [(["--version"], 15), (["--help"], 15), (["plan", "cpu-only"], 73)]
)
def test_a_command_imports_its_own_module_alone(
    arguments: list[str], most: int, tmp_path: Path
) -> None:
    """`gpuconf plan` does not wait for the import of the doctor; the number is what it takes."""
    loaded = loaded_by(tmp_path, *arguments)
    others = {f"gpuconf.commands.cli.{name}" for name in COMMANDS if name not in arguments}
    assert not loaded & others
    assert len(loaded) <= most, sorted(loaded)


@pytest.fixture(scope="module")
def of_argparse(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """What Python's own argparse loads, which differs from version to version."""
    return set(run_python(_ARGPARSE, tmp_path_factory.mktemp("bare")).split())


@pytest.mark.parametrize("command", _NOT_LOADED)
def test_a_command_does_without_dear_modules(
    command: str, of_argparse: set[str], tmp_path: Path
) -> None:
    """rich where something is drawn, PyYAML where YAML is read; benchmarks.timing: why.

    A framework nowhere: a command starts fast and takes no GPU memory.  The doctor's 400 modules
    are most of them of argparse, yaml and nvidia-ml-py.
    """
    (tmp_path / "train.py").write_text("import gpuconf.auto\nimport keras\n", encoding="utf-8")
    loaded = all_loaded_by(tmp_path, *command.split())
    assert "gpuconf.commands.cli.main" in loaded
    assert not loaded & (_NOT_LOADED[command] | FRAMEWORKS) - of_argparse
    assert len(loaded) < 500
