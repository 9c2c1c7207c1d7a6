"""gpuconf imported from a zip, and frozen: its own profiles are still there."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gpuconf import pyinstaller_hook
from gpuconf.profile.files import shipped_folder
from tests.programs.processes import run_with

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
from gpuconf.profile import find_profile, list_profiles, load_profile
assert ".zip" in find_profile("notebook").path
print(load_profile("virtual-pair", environ={}).name, load_profile(environ={}).origin)
print(*sorted(entry.name for entry in list_profiles(environ={}) if entry.error is None))
"""


def archive(folder: Path, *, has_configs: bool) -> Path:
    """The package as a zip, as `pip install --target` and `zip -r` make it."""
    path = folder / "all.zip"
    with zipfile.ZipFile(path, "w") as made:
        for file in (ROOT / "gpuconf").rglob("*.py"):
            made.write(file, file.relative_to(ROOT))
        for file in Path(shipped_folder()).iterdir() if has_configs else ():
            made.write(file, f"gpuconf/configs/{file.name}")
    return path


def run(path: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return run_with([sys.executable, "-c", PROGRAM], {**os.environ, "PYTHONPATH": path}, folder)


@pytest.mark.parametrize("is_relative", [False, True])
def test_a_zip(is_relative: bool, tmp_path: Path) -> None:
    """zipapp and spark's --py-files; the archive may be named from the working directory."""
    path = archive(tmp_path, has_configs=True)
    done = run(path.name if is_relative else str(path), tmp_path)
    assert done.stderr == ""
    names = sorted(file.stem for file in Path(shipped_folder()).glob("*.yaml"))
    assert done.stdout.splitlines() == ["virtual-pair shipped", " ".join(names)]


def test_a_zip_without_them(tmp_path: Path) -> None:
    """The error names the folder that the archive lacks, and how to get one that has it."""
    done = run(str(archive(tmp_path, has_configs=False)), tmp_path)
    assert "the archive lacks the folder gpuconf/configs" in done.stderr
    assert "pip install --target FOLDER gpuconf" in done.stderr


def test_pyinstallers_hook() -> None:
    """It collects all files that are read at run time, and what `import gpuconf` imports later.

    Without the rules no failure would be recognized, and nothing would say so.
    """
    (folder,) = pyinstaller_hook.hook_dirs()
    spec = importlib.util.spec_from_file_location("hook", Path(folder) / "hook-gpuconf.py")
    assert spec is not None
    assert spec.loader is not None
    hook = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hook)
    collected = {
        f"{target}/{file.name}"
        for pattern, target in hook.datas
        for file in Path(pattern).parent.glob(Path(pattern).name)
    }
    profiles = Path(shipped_folder()).glob("*.yaml")
    assert {f"gpuconf/configs/{file.name}" for file in profiles} <= collected
    rules = {str(file.relative_to(ROOT)) for file in (ROOT / "gpuconf").rglob("*.yaml")}
    assert len(rules) > 5
    assert rules <= collected
    assert {"gpuconf.session.configure", "gpuconf.profile"} <= set(hook.hiddenimports)
