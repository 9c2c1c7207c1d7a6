"""Which TensorFlow a command would run with, found without importing it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import MissingDependencyError

_PYTHON_NAME = re.compile(r"python[0-9.]*|pypy[0-9.]*")
_FIRST_BYTES = 1024
_TIMEOUT_S = 60
_PROBE = """
import importlib.metadata, importlib.util, json
spec = importlib.util.find_spec("tensorflow")
found = None
if spec is not None and spec.submodule_search_locations:
    names = importlib.metadata.packages_distributions().get("tensorflow", ())
    names = sorted(names, key=lambda name: (not name.startswith(("tensorflow", "tf")), len(name)))
    version = importlib.metadata.version(names[0]) if names else None
    found = {"folder": spec.submodule_search_locations[0], "version": version}
print("FOUND", json.dumps(found))
"""


class InstalledTensorFlow(NamedTuple):
    """A TensorFlow on disk: its version, the folder of its package, and whose it is."""

    version: str
    folder: Path
    python: str

    @property
    def headers(self) -> Path:
        """The folder of C++ headers that every TensorFlow wheel brings."""
        return self.folder / "include"

    @property
    def is_cuda_build(self) -> bool:
        """Whether it can use an NVIDIA GPU at all; `tensorflow-cpu` cannot."""
        facts = self.folder / "python" / "platform" / "build_info.py"
        try:
            return "('is_cuda_build', True)" in facts.read_text(encoding="utf-8")
        except OSError:
            return False


def python_of(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """The Python that ``command`` starts, as far as one can see without running it.

    The first word that names a Python (as in ``env A=1 python train.py``), else the one that the
    program's own first lines name, else PATH's, else ours.  For a shell script the last two are a
    guess; the kernel bridge says so where it was wrong.
    """
    path = environ.get("PATH")
    for word in command:
        if _PYTHON_NAME.fullmatch(os.path.basename(word)):
            named = shutil.which(word, path=path)
            if named is not None:
                return named
    program = shutil.which(command[0], path=path)
    for word in _first_words(program) if program is not None else ():
        if _PYTHON_NAME.fullmatch(os.path.basename(word)):
            return shutil.which(word, path=path) or sys.executable
    return shutil.which("python", path=path) or shutil.which("python3", path=path) or sys.executable


def find_tensorflow(
    command: Sequence[str], environ: Mapping[str, str]
) -> InstalledTensorFlow | None:
    """The TensorFlow that ``command`` would import, or None if its Python has none."""
    python = python_of(command, environ)
    try:
        done = subprocess.run(
            [python, "-c", _PROBE],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingDependencyError(
            f"cannot ask {python} for its TensorFlow: {error}", hint=f"try: {python} --version"
        ) from error
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    found = json.loads(line.removeprefix("FOUND ")) if line else None
    if found is None:
        return None
    return InstalledTensorFlow(found["version"] or "unknown", Path(found["folder"]), python)


def _first_words(program: str) -> list[str]:
    """The words of a script's ``#!`` line, and of the ``exec`` line that pip writes below
    ``#!/bin/sh`` where the path of the Python is too long for the system.
    """
    try:
        with open(program, "rb") as file:
            lines = file.read(_FIRST_BYTES).decode(errors="replace").splitlines()
    except OSError:
        return []
    if not lines or not lines[0].startswith("#!"):
        return []
    trampoline = lines[1] if len(lines) > 1 and lines[1].startswith("'''exec'") else ""
    return [*lines[0][2:].split(), *(word.strip("\"'") for word in trampoline.split())]
