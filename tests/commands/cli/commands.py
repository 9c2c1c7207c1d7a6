"""Run ``gpuconf`` commands, many of them in one fresh process to save time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema

from tests.programs.processes import run_python

ROOT = Path(__file__).resolve().parents[3]
# What was built for this user's own simulated GPUs serves commands that are at home elsewhere too.
BUILT = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}

_PROGRAM = """
import contextlib, io, json, os, sys
from gpuconf.commands.cli.main import main
results = []
for arguments, changes in json.loads({jobs!r}):
    before = dict(os.environ)
    os.environ.update(changes)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(arguments)
    results.append([code, out.getvalue(), err.getvalue()])
    os.environ.clear()
    os.environ.update(before)
print(json.dumps(results))
"""


class Job(NamedTuple):
    """The words after ``gpuconf``, and the variables that they run with."""

    arguments: Sequence[str]
    environ: Mapping[str, str] = {}


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str
    command: str

    @property
    def document(self) -> dict[str, Any]:
        """stdout as one JSON document, and such as the command's published schema says."""
        found: dict[str, Any] = json.loads(self.out)
        jsonschema.validate(found, schema(self.command))
        return found


def schema(command: str) -> dict[str, Any]:
    """The published schema of what a command prints with ``--json``."""
    text = (ROOT / "configs" / f"{command}.schema.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def run_commands(
    folder: Path, *commands: Sequence[str], environ: Mapping[str, str] | None = None
) -> list[Done]:
    """Run each of ``commands`` in ``folder``, one after the other in one process."""
    return run_jobs(folder, *map(Job, commands), environ=environ)


def run_jobs(folder: Path, *jobs: Job, environ: Mapping[str, str] | None = None) -> list[Done]:
    """Run ``jobs`` in the same way; ``environ`` holds for the whole process.

    What steers the dynamic loader, LD_LIBRARY_PATH, acts only in ``environ``.
    """
    program = _PROGRAM.format(jobs=json.dumps(jobs))
    results = json.loads(run_python(program, folder, environ=environ, timeout_s=300))
    return [
        Done(code, out, err, " ".join(job.arguments[:1]))
        for (code, out, err), job in zip(results, jobs, strict=True)
    ]


def gpuconf(*arguments: str) -> list[str]:
    """The command line of a process that is ``gpuconf`` with these arguments."""
    return [sys.executable, "-W", "error", "-m", "gpuconf", *arguments]
