"""Build the wheel, check what is in it, and try it in a clean environment: `make wheel`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROFILES = sorted(path.name for path in (ROOT / "configs").glob("*.yaml"))
ALLOWED_SUFFIXES = {".py", ".pyi", ".typed", ".yaml", ".json", ".c", ".cc", ".h", ".map", ".txt",
                    ".rc", ".md"}  # fmt: skip
DOTFILES = {"gpuconf/running/startup/zsh/.zshenv"}

TRY = """
import os, subprocess, sys
import gpuconf.auto, gpuconf
made = gpuconf.activation()
assert made.profile == "shared-desktop", made
source = gpuconf.load_profile().source
assert "site-packages" in source, source
names = sys.argv[1:]
for name in names:
    profile = gpuconf.load_profile(name)
    assert "site-packages" in profile.source, profile.source
for name in ("tensorflow", "keras", "rich", "argparse"):
    assert name not in sys.modules, name
print("the wheel's", len(names), "profiles load, and gpuconf.auto runs")
"""


def build(into: Path) -> Path:
    """Build the wheel from this checkout and return its path."""
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(into), str(ROOT)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    (wheel,) = into.glob("*.whl")
    return wheel


def expected_files() -> set[str]:
    """What git tracks under gpuconf/ and configs/, and the pages, by their names in the wheel."""
    listing = subprocess.run(
        ["git", "ls-files", "gpuconf", "configs", "docs/*.md"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return {
        f"gpuconf/{name}" if name.startswith(("configs/", "docs/")) else name
        for name in listing
        if (ROOT / name).exists()
    }


def check_contents(wheel: Path) -> None:
    """The wheel holds exactly the tracked files: nothing forgotten, nothing that crept in."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    expected = expected_files()
    assert names == expected, f"only in one: {sorted(names ^ expected)}"
    odd = {name for name in names if Path(name).suffix not in ALLOWED_SUFFIXES} - DOTFILES
    assert not odd, odd
    metadata = [n for n in zipfile.ZipFile(wheel).namelist() if ".dist-info/" in n]
    assert any(name.endswith("licenses/LICENSE") for name in metadata), metadata
    print(f"{wheel.name}: {len(names)} files, as tracked")


def try_in_clean_environment(wheel: Path, folder: Path) -> None:
    """Install it beside nothing else and use it, from a folder that is not the checkout."""
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    _run(folder, python, "-m", "pip", "install", "--quiet", wheel)
    names = [name.removesuffix(".yaml") for name in PROFILES]
    print(_run(folder, python, "-W", "error", "-c", TRY, *names), end="")
    gpuconf = folder / "venv" / "bin" / "gpuconf"
    listing = _run(folder, gpuconf, "profiles", "list")
    assert all(name in listing for name in names), listing
    assert '"schema_version"' in _run(folder, gpuconf, "plan", "--json")
    _run(folder, python, "-m", "gpuconf.simcard", "build")


def _run(folder: Path, *command: str | Path) -> str:
    """Run ``command`` in ``folder`` and return its stdout; its failure is ours."""
    return subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env=_clean_environment(),
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout


def _clean_environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("GPUCONF", "PYTHON"))}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        wheel_path = build(Path(temporary))
        check_contents(wheel_path)
        try_in_clean_environment(wheel_path, Path(temporary))
