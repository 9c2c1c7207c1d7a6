"""gpuconf in a program that PyInstaller bundles: all its files are there."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from gpuconf import pyinstaller_hook
from gpuconf.profile.files import shipped_folder

ROOT = Path(__file__).resolve().parents[1]


def test_pyinstallers_hook() -> None:
    """It collects all files that are read at run time, and what `import gpuconf` imports later.

    Without the rules no failure would be recognised, and nothing would say so.
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
