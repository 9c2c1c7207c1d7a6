"""Every PyTorch and JAX that gpuconf is tried with, on the simulated GPU: part of `make matrix`.

`python -m tests.acceptance.framework_matrix` writes the part of docs/matrix.md that is about them;
with `torch=2.9.1 …` it only runs and prints those.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import GpuconfError
from tests.acceptance.checks import Row
from tests.acceptance.framework_checks import ALL, TITLES, Check
from tests.acceptance.matrix import MatrixError, python_of
from tests.acceptance.matrix_page import WRITTEN, plain, replace_part
from tests.acceptance.stage import Stage, simulated_stage
from tests.frameworks.installed import InstallationError
from tests.packaging.check_pythons import find_python

# The last release of each minor version of PyTorch, and of JAX where its plugin changed; none is
# left out for what came of it.
VERSIONS: Mapping[str, tuple[str, ...]] = {
    "torch": (
        *("2.4.1", "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1"),
        *("2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"),
    ),
    "jax": (
        *("0.4.30", "0.4.34", "0.4.38", "0.5.0", "0.6.2", "0.7.2"),
        *("0.8.3", "0.9.2", "0.10.2", "0.11.2", "0.12.0.1"),
    ),
}
# JAX 0.11 and newer have no wheel for Python 3.11: they run in an environment of a newer Python.
NEWER_PYTHON, ITS_ENVIRONMENT = "3.12", ".venv-py312"
THIS_PYTHON = ".".join(platform.python_version_tuple()[:2])
HEAD = "# What holds on which PyTorch and JAX"
_ABOUT = """
Written by `make matrix` too: each row is a check of `tests/acceptance/framework_checks.py`, run
by the CUDA wheels of the package index on two simulated GPUs of 11264 MiB. *Keras*: whether a
variable of this Python's Keras lies on the GPU. Below a table: what failed, and why a version
could not be run.
"""
CHECKS = {
    "without_us_the_second_dies": "without gpuconf the second fails",
    "two_halves_run": "with it two halves run, caps exact",
    "growth_stops_at_the_cap": "growth, two caps, own out of memory",
    "tensorflow_runs_beside": "TensorFlow next to it",
}
_KERAS_ROW = "half-card: Keras runs on it"


class Line(NamedTuple):
    """The results of one version: its column of the table, and what to explain below."""

    cells: tuple[str, ...]
    remarks: tuple[str, ...] = ()

    @property
    def is_good(self) -> bool:
        """Whether every check held, or the version cannot be run at all."""
        return "✗" not in self.cells


def line_of(framework: str, version: str) -> Line:
    """Run every check with one version."""
    print(f"{framework} {version} …", file=sys.stderr, flush=True)
    remarks = []
    try:
        python = python_for(framework, version)
        if python != sys.executable:
            remarks.append(f"with Python {NEWER_PYTHON}")
        with simulated_stage(python, framework=framework, version=version, count=2) as stage:
            found = {check: _rows(check, stage, framework) for check in ALL}
    except InstallationError as error:
        is_missing = "No matching distribution" in str(error)
        return _not_run(version, f"no wheel for Python {THIS_PYTHON}" if is_missing else str(error))
    except MatrixError as error:
        return _not_run(version, str(error))
    except GpuconfError as error:
        return _not_run(version, error.message)
    rows = [row for each in found.values() for row in each]
    keras = next((row.seen for row in rows if row.what == _KERAS_ROW), "—")
    cells = ["✓" if keras.startswith("keras ") else "—"]
    cells += ["✗" if _failed(each) else "✓" for each in found.values()]
    remarks += [f"{row.what}: {row.seen} (expected {row.expected})" for row in _failed(rows)]
    if cells[0] != "✓":
        remarks.append(f"Keras: {keras}")
    return Line((version, *cells), tuple(f"{version}: {plain(each)}" for each in remarks))


def python_for(framework: str, version: str) -> str:
    """The Python that runs a version: this one, or a newer one if there is no wheel for it.

    Raises MatrixError if no newer one is found.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    if framework != "jax" or (major, minor) < (0, 11) or sys.version_info >= (3, 12):
        return sys.executable
    newer = find_python(NEWER_PYTHON)
    if newer is None:
        why = f"no wheel for Python {THIS_PYTHON}, and no Python {NEWER_PYTHON} was found"
        raise MatrixError(why)
    return str(python_of(ITS_ENVIRONMENT, ["tensorflow"], newer))


def _rows(check: Check, stage: Stage, framework: str) -> list[Row]:
    """What a check found; a program that failed before it allocated anything fails it."""
    try:
        return check(stage, framework)
    except (GpuconfError, RuntimeError) as error:
        text = error.message if isinstance(error, GpuconfError) else str(error)
        return [Row(check.__name__, "runs", text[:200], is_good=False)]


def _failed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if not row.is_good and row.what != _KERAS_ROW]


def _not_run(version: str, why: str) -> Line:
    return Line((version, *["—"] * (1 + len(CHECKS))), (f"{version}: not run: {plain(why)}",))


def table_of(framework: str, lines: Iterable[Line]) -> str:
    """One framework's section: a column for each version."""
    lines = list(lines)
    title = f"## {TITLES[framework]}, {datetime.date.today()}: Python {platform.python_version()}"
    labels = [TITLES[framework], "Keras", *CHECKS.values()]
    versions, *checks = zip(labels, *(line.cells for line in lines), strict=True)
    rows = [versions, ["---"] * len(versions), *checks]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    remarks = "\n".join(f"- {remark}" for line in lines for remark in line.remarks)
    return f"{title}\n\n{table}\n" + (f"\n{remarks}\n" if remarks else "")


def write_part(tables: Iterable[str], written: Path = WRITTEN) -> None:
    """Replace our part of the page."""
    replace_part("\n".join([HEAD, _ABOUT, *tables]), written)


def main() -> int:
    """Run, print and write the tables; exit 1 if a check failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", nargs="*", metavar="FRAMEWORK=VERSION", help="nothing is written")
    only = parser.parse_args().only
    found = {
        framework: [
            line_of(framework, version)
            for version in versions
            if not only or f"{framework}={version}" in only
        ]
        for framework, versions in VERSIONS.items()
    }
    tables = [table_of(framework, lines) for framework, lines in found.items() if lines]
    print("\n".join(tables))
    if not only:
        write_part(tables)
    return 0 if all(line.is_good for lines in found.values() for line in lines) else 1


if __name__ == "__main__":
    sys.exit(main())
