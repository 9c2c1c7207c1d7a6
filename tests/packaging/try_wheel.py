"""Install a wheel next to nothing else, and try it: ``python3.X try_wheel.py WHEEL``.

The Python that runs this is the one that is tried; it needs its standard library alone, so that a
bare machine or a container can run this file without the checkout.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

IMPORTS = """
import sys
import gpuconf.auto, gpuconf
made = gpuconf.activation()
assert made.profile == "shared-desktop", made
for name in (None, *sys.argv[1:]):
    source = gpuconf.load_profile(name).source
    assert "site-packages" in source, source
for name in ("tensorflow", "keras", "rich", "argparse"):
    assert name not in sys.modules, name
"""
LOG = (
    "2026-01-01 10:00:00.000000: W tensorflow/core/common_runtime/bfc_allocator.cc:497] Allocator "
    "(GPU_0_bfc) ran out of memory trying to allocate 1.00GiB (rounded to 1073741824)requested by "
    "op conv2d\n"
)
NOT_INSTALLED = 4


class CleanEnvironment:
    """A virtual environment of this Python with the wheel in it, used from an empty folder."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.folder, self.wheel = folder, wheel
        venv.create(folder / "venv", with_pip=True)
        self.python = folder / "venv" / "bin" / "python"
        self.gpuconf = folder / "venv" / "bin" / "gpuconf"
        self.run(self.python, "-m", "pip", "install", "--quiet", wheel)

    def run(self, *command: str | Path, code: int = 0) -> str:
        """Run a command, and return its stdout; AssertionError for another exit ``code``."""
        ours = ("GPUCONF", "PYTHON")
        done = subprocess.run(
            [str(part) for part in command],
            cwd=self.folder,
            env={k: v for k, v in os.environ.items() if not k.startswith(ours)},
            check=False,
            capture_output=True,
            text=True,
        )
        words = " ".join(str(part) for part in command if "\n" not in str(part))
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout


def shipped_profiles(wheel: Path) -> list[str]:
    """The profiles in a wheel, by name."""
    names = zipfile.ZipFile(wheel).namelist()
    ours = (name for name in names if name.startswith("gpuconf/configs/"))
    return sorted(Path(name).stem for name in ours if name.endswith(".yaml"))


def try_out(clean: CleanEnvironment) -> str:
    """Import it and run its commands; return what was tried, for people."""
    profiles, version = shipped_profiles(clean.wheel), clean.wheel.name.split("-")[1]
    clean.run(clean.python, "-W", "error", "-c", IMPORTS, *profiles)
    assert clean.run(clean.gpuconf, "--version") == f"gpuconf {version}\n"
    listing = clean.run(clean.gpuconf, "profiles", "list")
    assert all(name in listing for name in profiles), listing
    assert '"schema_version"' in clean.run(clean.gpuconf, "plan", "--json")
    clean.run(clean.gpuconf, "doctor")
    log = clean.folder / "train.log"
    log.write_text(LOG, encoding="utf-8")
    assert "oom-device-tensor" in clean.run(clean.gpuconf, "explain", log)
    clean.run(clean.gpuconf, "demo", "--quick", code=NOT_INSTALLED)
    return f"{len(profiles)} profiles, 6 commands, {_on_simulated_card(clean)}"


def _on_simulated_card(clean: CleanEnvironment) -> str:
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        return "no simulated GPU: there is no C compiler"
    card = ("simcard", "run", "--total", "8GiB", "--used", "1GiB", "--")
    plan = clean.run(clean.gpuconf, *card, clean.gpuconf, "plan", "half-card")
    assert "fraction 0.35 × 8192 MiB total = 2867 MiB" in plan, plan
    return "a plan on a simulated GPU"


def main(wheel: Path) -> None:
    """Try ``wheel`` with this Python."""
    with tempfile.TemporaryDirectory() as temporary:
        tried = try_out(CleanEnvironment(Path(temporary), wheel.resolve()))
    print(f"Python {sys.version.split()[0]}: {wheel.name} works: {tried}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
