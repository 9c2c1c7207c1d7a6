"""The wheel in every Python that gpuconf says it works with: `make pythons`.

Each is looked for on PATH, then in pyenv's folder; those not found are named.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.check_wheel import build

PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
TRY_WHEEL = Path(__file__).with_name("try_wheel.py")


@functools.cache
def find_python(version: str) -> str | None:
    """A Python of this version; None where there is none."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    if os.access(pyenv, os.R_OK | os.X_OK):  # not if it is another user's
        candidates += [str(p) for p in sorted(pyenv.glob(f"{version}.*/bin/python{version}"))]
    return next((each for each in candidates if each and _is(each, version)), None)


def _is(python: str, version: str) -> bool:
    """Whether it runs, and is what its name says: pyenv's shims may be neither."""
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def main() -> int:
    """Try the wheel in each Python; 1 where one fails, or none is found."""
    found = {version: find_python(version) for version in PYTHONS}
    with tempfile.TemporaryDirectory() as temporary:
        _, wheel = build(Path(temporary))
        codes = [
            subprocess.run([python, str(TRY_WHEEL), str(wheel)], check=False).returncode
            for python in found.values()
            if python is not None
        ]
    missing = [version for version, python in found.items() if python is None]
    if missing:
        print(f"not tried, because not found: Python {', '.join(missing)}")
    return int(any(codes) or not codes)


if __name__ == "__main__":
    sys.exit(main())
