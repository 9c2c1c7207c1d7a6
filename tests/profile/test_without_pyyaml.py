"""Without PyYAML, or with another module of that name, reading a profile is one clear error."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.programs.processes import run


@pytest.mark.parametrize(
    ("files", "before", "said", "hint"),
    [
        (["yaml.py"], "", "yaml.py hides PyYAML", "rename"),
        (["yaml/__init__.py"], "", "__init__.py hides PyYAML", "rename"),
        ([], "import types; sys.modules['yaml'] = types.ModuleType('yaml')", "a module named", ""),
        ([], "sys.modules['yaml'] = None", "PyYAML is not installed", "pip install pyyaml"),
    ],
    ids=["a file", "a folder", "a module", "none"],
)
def test_where_pyyaml_is_not_there(
    files: list[str], before: str, said: str, hint: str, tmp_path: Path
) -> None:
    """One clear error, also for a script next to its own yaml.py."""
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "own.yaml").write_text("extends: shared-desktop\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(f"import sys; {before}\nimport gpuconf.auto\n")
    environ = {"GPUCONF_PROFILE": "./own.yaml"}
    done = run([sys.executable, "train.py"], tmp_path, environ=environ)
    assert done.returncode == 1
    assert said in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr
