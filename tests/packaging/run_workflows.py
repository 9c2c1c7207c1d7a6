"""Run the steps of .github/workflows on this machine, as far as it can: `make workflows`.

They share a fresh clone of the last commit, with CHANGELOG.md as RELEASING.md makes it.  Each job
gets a new environment of its Python.  What cannot run here is listed with the reason.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gpuconf import __version__
from tests.packaging.check_pythons import find_python

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHON = "actions/setup-python"
FILES = ("actions/upload-artifact", "actions/download-artifact")  # they stay in the one clone
DONE_HERE = ("actions/checkout", "actions/cache", PYTHON, *FILES)


class Step(NamedTuple):
    """A command, or an action with the options that matter here; and why it cannot run here."""

    command: str
    action: str
    python: str
    path: str
    why_not: str = ""


def jobs_of(workflow: Path) -> Iterator[tuple[str, list[Step]]]:
    """The title and the steps of each job, once for each value of its matrix."""
    for name, job in yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"].items():
        matrix: dict[str, list[str]] = job.get("strategy", {}).get("matrix", {"": [""]})
        ((key, values),) = matrix.items()
        for value in values:
            steps = job.get("steps", [job])  # a job may be a workflow of its own
            made = [_step(step, f"${{{{ matrix.{key} }}}}", value) for step in steps]
            yield f"{workflow.stem}/{name} {value}".rstrip(), made


def _step(step: dict[str, Any], expression: str, value: str) -> Step:
    command = step.get("run", "").replace(expression, value)
    action, options = step.get("uses", "").partition("@")[0], step.get("with", {})
    python = options.get("python-version", "").replace(expression, value)
    made = Step(command, action, python, options.get("path", "."))
    return made._replace(why_not=_why_not(made, step.get("env", {}).values()))


def _why_not(step: Step, variables: Iterable[str]) -> str:
    if step.action == PYTHON and find_python(step.python) is None:
        return f"there is no Python {step.python} here"
    if step.action:
        return "" if step.action in DONE_HERE else "left to GitHub"
    if unknown := re.findall(r"\$\{\{ (.*?) \}\}", " ".join([step.command, *variables])):
        return f"GitHub alone knows {', '.join(unknown)}"
    program = step.command.split()[0]
    return "" if "/" in program or shutil.which(program) else f"there is no {program} here"


def clone(folder: Path) -> None:
    """Clone the last commit into ``folder``, and date its changes."""
    subprocess.run(["git", "clone", "--quiet", ROOT, folder], check=True)
    if f"## {__version__} - " not in (folder / "CHANGELOG.md").read_text(encoding="utf-8"):
        heading = f"s/^## Unreleased$/&\\n\\n## {__version__} - {date.today()}/"
        subprocess.run(["sed", "-i", heading, "CHANGELOG.md"], cwd=folder, check=True)


def run(step: Step, folder: Path, python: Path) -> str:
    """Do a step in ``folder``, with the environment ``python``; return why it was not done."""
    if step.command:
        path = f"{python / 'bin'}:{os.environ['PATH']}"
        environ = {**os.environ, "PATH": path, "CI": "true", "GITHUB_REF_NAME": f"v{__version__}"}
        code = subprocess.call(["bash", "-e", "-c", step.command], cwd=folder, env=environ)
        return f"FAILED with exit code {code}" if code else ""
    if step.action == PYTHON:
        shutil.rmtree(folder / ".venv", ignore_errors=True)  # of another Python
        subprocess.run([f"{find_python(step.python)}", "-m", "venv", "--clear", python], check=True)
    is_missing = step.action in FILES and not (folder / step.path).exists()
    return f"there is no {step.path}" if is_missing else ""


def main() -> int:
    """List or run the steps of each workflow; 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print the steps, and run none")
    parser.add_argument("--skip", metavar="PATTERN", help="leave out commands that match it")
    options, has_failed = parser.parse_args(), False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "clone"
        clone(folder)
        for title, steps in (job for workflow in WORKFLOWS for job in jobs_of(workflow)):
            print(title)
            why_not = ""
            for step in steps:
                print(f"  {step.command or step.action}", flush=True)
                why_not = step.why_not or (why_not and "a step before it was not done")
                if options.skip and step.command and re.search(options.skip, step.command):
                    why_not = why_not or "skipped"
                if not why_not and not options.list:
                    why_not = run(step, folder, Path(temporary) / "python")
                    has_failed |= why_not.startswith("FAILED")
                print(f"    not done: {why_not}\n" * bool(why_not), end="", flush=True)
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main())
