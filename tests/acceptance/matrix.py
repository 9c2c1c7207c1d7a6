"""Every TensorFlow that gpuconf supports, each in its own virtual environment: `make matrix`.

First all are requested the private names that gpuconf leans on, then each runs the acceptance.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.acceptance.matrix_page import WRITTEN, replace_part

ROOT = Path(__file__).resolve().parents[2]
# Name of the environment -> what it gets besides gpuconf itself.
ENVIRONMENTS = {
    ".venv-tf215": ["tensorflow==2.15.1"],
    ".venv-tf216": ["tensorflow==2.16.2", "tf_keras==2.16.0"],
    ".venv-tf217": ["tensorflow==2.17.1", "tf_keras==2.17.0"],
    ".venv-tf218": ["tensorflow==2.18.1", "tf_keras==2.18.0"],
    ".venv-tf219": ["tensorflow==2.19.1", "tf_keras==2.19.0"],
    ".venv-tf220": ["tensorflow==2.20.0", "tf_keras==2.20.1"],
    ".venv-newest": ["tensorflow", "tf_keras"],
}
CONTRACT = ROOT / "tests" / "support" / "keras_api" / "contract_program.py"
HEAD = """# What holds on which TensorFlow

Written by `make matrix`: every row is a check of `tests/acceptance/checks.py`, run by real
TensorFlow on the simulated GPU. Above each table: whether every private name of
`gpuconf/support/keras_api/contract.py` is there.
"""


# The lines between a table's head and its rows, and of a row that is not as expected.
RULE, CROSS = "| --- |", "✗"
_NO_WHEEL_SINCE = {
    "tensorflow==2.15.1": (3, 12),
    **{f"tensorflow=={version}": (3, 13) for version in ("2.16.2", "2.17.1", "2.18.1", "2.19.1")},
}


class MatrixError(Exception):
    """An environment that has no table to show."""


def why_not(packages: Sequence[str], python: tuple[int, int]) -> str | None:
    """What to do instead where a package has no wheel for this Python; None if all have one."""
    for package in packages:
        limit = _NO_WHEEL_SINCE.get(package)
        if limit is not None and python >= limit:
            return (
                f"no wheel of {package} exists for Python {python[0]}.{python[1]}; "
                "try: make PYTHON=python3.11 matrix (with VENV=.venv-3.11 too if .venv is there)"
            )
    return None


def python_of(name: str, packages: list[str], maker: str = sys.executable) -> Path:
    """The Python of the environment, made on the first use by the Python ``maker``."""
    folder = ROOT / name
    python = folder / "bin" / "python"
    if (folder / ".ready").exists():
        return python
    if (reason := why_not(packages, sys.version_info[:2])) is not None:
        raise MatrixError(f"{name}: {reason}")
    if subprocess.run([maker, "-m", "venv", "--clear", str(folder)], check=False).returncode:
        raise MatrixError(f"{name}: {maker} could not make it, see above")
    pip = [str(python), "-m", "pip", "install", "--quiet", "--editable", f"{ROOT}[xla]", *packages]
    if subprocess.run(pip, check=False).returncode != 0:
        raise MatrixError(f"{name}: pip could not install it, see above")
    (folder / ".ready").touch()
    return python


def contract_of(name: str, command: Sequence[str]) -> str:
    """What ``command`` says of the private names, every one being there; it takes half a minute.

    Raises MatrixError where one is missing, with all that are.
    """
    print(f"{name}: private names", file=sys.stderr, flush=True)
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False, env=quiet)
    if done.returncode != 0:
        raise MatrixError(f"{name} lacks private names, or could not say:\n{done.stdout}")
    return done.stdout.strip()


def table_of(name: str, command: Sequence[str], contract: str) -> tuple[str, int]:
    """The table that ``command`` prints, and its exit code; its stderr is shown as it comes."""
    print(f"{name}:", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if RULE not in done.stdout:
        raise MatrixError(f"{name} printed no table (exit code {done.returncode}), see above")
    title, _, table = done.stdout.partition("\n")
    return f"## {title}\n\nPrivate names: {contract}\n{table}", done.returncode


def write_page(
    commands: Mapping[str, Sequence[str]], written: Path, contracts: Mapping[str, str]
) -> int:
    """Write the page once every environment has printed its table; 1 if a check failed."""
    tables = [table_of(name, command, contracts[name]) for name, command in commands.items()]
    page = "\n".join([HEAD, *(table for table, _ in tables)])
    replace_part(page, written)
    print(page)
    return max(code for _, code in tables)


def main() -> int:
    """Run all, print and write the tables; exit 1 if one is missing or a check failed."""
    acceptance = [sys.executable, "-m", "tests.acceptance", "--python"]
    try:
        pythons = {name: str(python_of(name, given)) for name, given in ENVIRONMENTS.items()}
        contracts = {n: contract_of(n, [python, str(CONTRACT)]) for n, python in pythons.items()}
        commands = {name: [*acceptance, python] for name, python in pythons.items()}
        return write_page(commands, WRITTEN, contracts)
    except MatrixError as error:
        print(f"matrix: {error}; {WRITTEN.name} is left as it was", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
