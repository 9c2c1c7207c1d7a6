"""What the plan of a run cannot reach is refused at start, with what to start instead."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from gpuconf.commands.run.unsupported_commands import _ELSEWHERE, refuse_unreachable
from gpuconf.errors import UsageError

LINES = yaml.safe_load(
    Path(__file__).with_name("unsupported_commands.yaml").read_text(encoding="utf-8")
)
PRESENT = (
    *("python", "python3.12", "pypy3", "train.sh", "uv", "conda", "torchrun", "mpirun", "srun"),
    *_ELSEWHERE,
)


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """A PATH on which every program of the tables exists and may be executed."""
    folder = tmp_path_factory.mktemp("bin")
    for name in PRESENT:
        (folder / name).touch(mode=0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def refusal(line: str, environ: Mapping[str, str]) -> UsageError | None:
    """What is raised for a command line, as a shell would split it."""
    try:
        refuse_unreachable(shlex.split(line), environ)
    except UsageError as error:
        return error
    return None


def test_what_the_plan_reaches(environ: Mapping[str, str]) -> None:
    """Nothing is refused that the environment and the open file go through."""
    refused = {line: refusal(line, environ) for line in LINES["reached"]}
    assert {line: error for line, error in refused.items() if error is not None} == {}


@pytest.mark.parametrize("kind", ["not reached", "not started"])
def test_what_is_refused(kind: str, environ: Mapping[str, str]) -> None:
    """The exit code that a shell would give, or 2; what and why; and what to start instead."""
    for row in LINES[kind]:
        line = row["line"]
        error = refusal(line, environ)
        assert error is not None, line
        assert error.exit_code == row.get("code", 2), line
        assert row.get("says", "") in error.message, line
        assert "code" in row or error.hint is not None, line
        assert row.get("hint", "") in (error.hint or ""), line


@pytest.mark.parametrize("name", _ELSEWHERE)
def test_each_of_the_table(name: str, environ: Mapping[str, str]) -> None:
    """By its name, whatever follows; what to start instead has gpuconf in it."""
    error = refusal(f"{name} x", environ)
    assert error is not None
    assert "gpuconf run -- " in str(error.hint)


def test_what_is_refused_is_what_is_lost(tmp_path: Path) -> None:
    """Each line is started for real: refused exactly where no sitecustomize of ours has run."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("print('reached')\n", encoding="utf-8")
    python = tmp_path / "python"
    python.symlink_to(sys.executable)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    lines = [line.format(python=python) for line in LINES["started"]]
    started = [
        subprocess.Popen(
            shlex.split(line),
            env={**environ, "PYTHONPATH": str(site)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        for line in lines
    ]
    reached = {
        line: "reached" in child.communicate()[0]
        for line, child in zip(lines, started, strict=True)
    }
    assert all(child.returncode == 0 for child in started), reached
    assert {line: refusal(line, environ) is None for line in lines} == reached
