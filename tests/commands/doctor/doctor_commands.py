"""Run ``gpuconf doctor`` over many machines in one process: the stand-in reads its facts anew."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jsonschema

from tests.commands.cli.commands import schema
from tests.programs.processes import run_python

SCHEMA = schema("doctor")
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)

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


class Done(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


class Job(NamedTuple):
    """The words after ``gpuconf``, and the variables they run with."""

    arguments: Sequence[str]
    environ: Mapping[str, str] = {}


def run_jobs(folder: Path, *jobs: Job, environ: Mapping[str, str] | None = None) -> list[Done]:
    """Run ``jobs`` one after the other; ``environ`` holds for the whole process.

    What steers the dynamic loader, LD_LIBRARY_PATH, acts only in ``environ``.
    """
    words = json.dumps([[list(job.arguments), dict(job.environ)] for job in jobs])
    program = _PROGRAM.format(jobs=words)
    return [Done(*result) for result in json.loads(run_python(program, folder, environ=environ))]


def checked(done: Done) -> dict[str, Any]:
    """The document on stdout, which must be as the published schema says."""
    document: dict[str, Any] = json.loads(done.out)
    errors = [error.message for error in VALIDATOR.iter_errors(document)]
    assert not errors, errors
    return document


def troubles(document: Mapping[str, Any]) -> dict[str, str]:
    """The findings that are no ``ok`` and no ``skip``: id to status."""
    found = document["findings"]
    return {each["id"]: each["status"] for each in found if each["status"] not in ("ok", "skip")}
