"""Checks that run inside TensorFlow: all those of some files in one fresh process, each a test.

The checks are functions ``check_...`` with asserts, in files of their own; pytest runs them
there, so that one that fails tells what it has compared.  A check may be parametrized; it holds
if all its cases do.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.programs import warm
from tests.programs.processes import run

PLAIN = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

# The name of a check to what its cases failed with; empty where it holds.
Outcomes = Mapping[str, str]


def names_in(*files: Path) -> list[str]:
    """The names of the checks in these files, of which no two may be alike."""
    names = [name for file in files for name in _names_in(file)]
    assert len(set(names)) == len(names)
    return names


def _names_in(file: Path) -> list[str]:
    return re.findall(r"^def (check_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)


def outcomes_fixture(*files: Path, environ: Mapping[str, str] = PLAIN) -> Callable[..., Outcomes]:
    """A fixture that runs the checks of these files that this test run requests."""

    @pytest.fixture(scope="module")
    def outcomes(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Outcomes:
        wanted = [
            str(item.callspec.params["check"])
            for item in request.session.items
            if item.path == request.path and isinstance(item, pytest.Function)
            if hasattr(item, "callspec") and "check" in item.callspec.params
        ]
        return _run_checks(files, wanted, tmp_path_factory.mktemp("inside"), environ)

    return outcomes


def _run_checks(
    files: Sequence[Path], names: Sequence[str], folder: Path, environ: Mapping[str, str]
) -> Outcomes:
    """Run the checks of these names in a fresh process, where pytest finds their neighbors."""
    report = folder / "report.xml"
    options = ["-p", "no:xdist", "-p", "no:cacheprovider", f"--junit-xml={report}", "-q"]
    options += ["-o", "python_functions=check_*", "-o", "junit_family=xunit1"]
    checks = [f"{file}::{name}" for file in files for name in _names_in(file) if name in names]
    code = "import sys, pytest; sys.exit(pytest.main(sys.argv[1:]))"
    command = [sys.executable, "-W", "error", "-c", code, *options, *checks]
    done = run(command, folder, environ={warm.VARIABLE: "1", **environ}, timeout_s=900)
    outcomes: dict[str, str] = {}
    for case in ElementTree.parse(report).iter("testcase") if report.exists() else ():
        check = case.get("name", "").partition("[")[0]
        outcomes[check] = outcomes.get(check, "") + _failure(case)
    # Those that are missing were not run: the process failed, or the file could not be read.
    return {**dict.fromkeys(names, done.stdout + done.stderr + "\nnot run"), **outcomes}


def _failure(case: ElementTree.Element) -> str:
    """Its text where it failed; where it was skipped, too: no check may be."""
    return "\n".join(each.text or str(each.get("message")) for each in case)


def holds(outcomes: Outcomes, check: str) -> None:
    """Fail with what the check has failed with, if it has."""
    failure = outcomes.get(check, "it was not run")
    if failure:
        pytest.fail(failure, pytrace=False)
