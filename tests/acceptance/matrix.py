"""Every TensorFlow that gpuconf supports, each in its own virtual environment: `make matrix`.

First all are requested the private names that gpuconf leans on, then each runs the acceptance.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.acceptance.checks import Row
from tests.acceptance.matrix_page import WRITTEN, plain, replace_part

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
CONTRACT = "tests.support.keras_api.contract_program"
HEAD = """# What holds on which TensorFlow

Written by `make matrix`: every row is a check of `tests/acceptance/checks.py`, run by real
TensorFlow on the simulated GPU. *Seen* is what the newest version showed. Below the table is what
failed, and what another version showed. *Private names* are those of
`tests/support/keras_api/contract.py`.
"""
TICK, CROSS = "✓", "✗"
_WIDEST = 80  # of what a check saw; the tests show it whole
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


class Found(NamedTuple):
    """What the acceptance found in one environment: date, libraries and GPU; a row for a check."""

    about: str
    rows: tuple[Row, ...]

    @property
    def version(self) -> str:
        """Of TensorFlow."""
        match = re.search(r"tensorflow ([\d.]+)", self.about)
        return match[1] if match else self.about


def found_by(name: str, command: Sequence[str]) -> Found:
    """What ``command`` prints as JSON; its stderr is shown as it comes."""
    print(f"{name}:", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        printed = json.loads(done.stdout)
    except ValueError:
        why = f"{name} printed no rows (exit code {done.returncode}), see above"
        raise MatrixError(why) from None
    return Found(printed["about"], tuple(Row(*row) for row in printed["rows"]))


def page_of(found: Mapping[str, Found], contracts: Mapping[str, str]) -> str:
    """Our part of the page: the environments, then one table with a column for each of them."""
    newest = list(found.values())[-1]
    lines = [HEAD, f"On a {newest.about.rpartition('; ')[2]}:", ""]
    for name, each in found.items():
        lines.append(f"- {each.about.rpartition('; ')[0]}; private names: {contracts[name]}")
    head = ["what", "expected", *(each.version for each in found.values()), "seen"]
    lines += ["", _line(head), _line(["---"] * len(head))]
    for same in zip(*(each.rows for each in found.values()), strict=True):
        marks = (TICK if row.is_good else CROSS for row in same)
        seen = plain(same[-1].seen, _WIDEST)
        lines.append(_line([same[-1].what, same[-1].expected, *marks, seen]))
    return "\n".join([*lines, "", *_differing(list(found.values()))]).rstrip() + "\n"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(plain(cell) for cell in cells)} |"


def _differing(found: Sequence[Found]) -> Iterator[str]:
    """What versions saw that the newest did not, or what failed."""
    for same in zip(*(each.rows for each in found), strict=True):
        versions: dict[str, list[str]] = {}
        for each, row in zip(found, same, strict=True):
            if not row.is_good or row != same[-1]:
                versions.setdefault(plain(row.seen), []).append(each.version)
        for seen, those in versions.items():
            yield f"- {', '.join(those)}: {same[-1].what}: {seen}"


def write_page(
    commands: Mapping[str, Sequence[str]], written: Path, contracts: Mapping[str, str]
) -> int:
    """Write the page once every environment has printed its rows; 1 if a check failed."""
    found = {name: found_by(name, command) for name, command in commands.items()}
    page = page_of(found, contracts)
    replace_part(page, written)
    print(page)
    return 0 if all(row.is_good for each in found.values() for row in each.rows) else 1


def main() -> int:
    """Run all, print and write the tables; exit 1 if one is missing or a check failed."""
    acceptance = [sys.executable, "-m", "tests.acceptance", "--json", "--python"]
    try:
        pythons = {name: str(python_of(name, given)) for name, given in ENVIRONMENTS.items()}
        contracts = {n: contract_of(n, [python, "-m", CONTRACT]) for n, python in pythons.items()}
        commands = {name: [*acceptance, python] for name, python in pythons.items()}
        return write_page(commands, WRITTEN, contracts)
    except MatrixError as error:
        print(f"matrix: {error}; {WRITTEN.name} is left as it was", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
