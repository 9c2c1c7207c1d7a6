"""What ``gpuconf doctor`` costs: no framework is loaded, and few modules are."""

from __future__ import annotations

import json
from pathlib import Path

from tests.programs.processes import run_python, write_package

FRAMEWORKS = {"tensorflow", "keras", "tf_keras", "jax", "jaxlib", "torch", "numpy"}
_LOADED = """
import json, sys
from gpuconf.commands.cli.main import main
{statement}
code = main({arguments!r})
print("\\n" + json.dumps([code, sorted(sys.modules)]))
"""


def _loaded(folder: Path, *arguments: str, statement: str = "") -> tuple[int, list[str]]:
    """The exit code, and the modules that the doctor's process has loaded."""
    program = _LOADED.format(arguments=["doctor", *arguments], statement=statement)
    code, modules = json.loads(run_python(program, folder).splitlines()[-1])
    return code, modules


def _packages(modules: list[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules}


def test_no_framework_and_few_modules_are_loaded(tmp_path: Path) -> None:
    """Not by all the checks, whatever is installed, nor by reading a script.

    Some 400 modules, most of them of argparse, rich, yaml and nvidia-ml-py, are a fraction of a
    second.
    """
    (tmp_path / "train.py").write_text("import gpuconf.auto\nimport keras\n")
    code, modules = _loaded(tmp_path, "-v", "--script", "train.py")
    assert code in (0, 1)
    assert not _packages(modules) & FRAMEWORKS
    assert len(modules) < 500


def test_the_check_for_frameworks_can_fail(tmp_path: Path) -> None:
    """A package of that name that is loaded is seen."""
    write_package(tmp_path, {"tensorflow.py": ""})
    _, modules = _loaded(tmp_path, statement="import tensorflow")
    assert _packages(modules) & FRAMEWORKS == {"tensorflow"}
