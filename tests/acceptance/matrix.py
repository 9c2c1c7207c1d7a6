"""The acceptance on several TensorFlows, each in its own virtual environment: `make matrix`."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Name of the environment -> what it gets besides gpuconf itself.
ENVIRONMENTS = {
    ".venv-tf215": ["tensorflow==2.15.1"],
    ".venv-newest": ["tensorflow", "tf_keras"],
}
WRITTEN = ROOT / "docs" / "matrix.md"
HEAD = """# What holds on which TensorFlow

Written by `make matrix`: every row is a check of `tests/acceptance/checks.py`, run by real
TensorFlow on the simulated card.
"""


def python_of(name: str, packages: list[str]) -> Path:
    """The Python of the environment, made on the first use."""
    folder = ROOT / name
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        venv.create(folder, with_pip=True, clear=True)
        install = [
            str(python),
            "-m",
            "pip",
            "install",
            "--quiet",
            "--editable",
            str(ROOT),
            *packages,
        ]
        subprocess.run(install, check=True)
        (folder / ".ready").touch()
    return python


def main() -> int:
    """Run all, print and write the tables; exit 1 if a check failed anywhere."""
    tables, worst = [HEAD], 0
    for name, packages in ENVIRONMENTS.items():
        python = python_of(name, packages)
        command = [sys.executable, str(Path(__file__).parent), "--python", str(python)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        tables.append("## " + done.stdout)
        worst = max(worst, done.returncode)
    WRITTEN.parent.mkdir(exist_ok=True)
    WRITTEN.write_text("\n".join(tables), encoding="utf-8")
    print("\n".join(tables))
    return worst


if __name__ == "__main__":
    sys.exit(main())
