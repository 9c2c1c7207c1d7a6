"""Finds the frameworks that a command would import, without importing them."""

from __future__ import annotations

import functools
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
def folder_of(name):
    spec = importlib.util.find_spec(name)
    return spec.submodule_search_locations[0] if spec and spec.submodule_search_locations else None
names = ("tensorflow", "torch", "jax", "jax_plugins", "nvidia")
found = {name: folder_of(name) for name in names}
if found["tensorflow"]:
    names = importlib.metadata.packages_distributions().get("tensorflow", ())
    names = sorted(names, key=lambda name: (not name.startswith(("tensorflow", "tf")), len(name)))
    found["version"] = importlib.metadata.version(names[0]) if names else None
print("FOUND", json.dumps(found))
"""


class InstalledTensorFlow(NamedTuple):
    """An installed TensorFlow: its version, its package folder, and its Python."""

    version: str
    folder: Path
    python: str

    @property
    def headers(self) -> Path:
        """The folder of C++ headers in every TensorFlow wheel."""
        return self.folder / "include"

    @property
    def is_cuda_build(self) -> bool:
        """Whether this TensorFlow is built for NVIDIA GPUs; `tensorflow-cpu` is not."""
        facts = self.folder / "python" / "platform" / "build_info.py"
        try:
            return "('is_cuda_build', True)" in facts.read_text(encoding="utf-8")
        except OSError:
            return False


def python_of(command: Sequence[str], environ: Mapping[str, str]) -> str:
    """Return the Python that ``command`` starts, as far as can be seen without running it.

    This is the first word that names a Python (as in ``env A=1 python train.py``), else the one
    named in the program's first lines, else the one on PATH, else our own. For a shell script the
    last two are guesses; the kernel bridge reports a wrong one.
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


class Frameworks(NamedTuple):
    """The frameworks that a command would import; PyTorch and JAX are given as package folders.

    JAX is listed only with plugins, since it has no CUDA without them.  ``nvidia`` is the folder of
    NVIDIA's wheels.
    """

    tensorflow: InstalledTensorFlow | None = None
    torch: Path | None = None
    jax: Path | None = None
    nvidia: Path | None = None

    @property
    def has_nvidia_libraries(self) -> bool:
        """Whether NVIDIA's libraries are installed as wheels, not only its compilers."""
        return self.nvidia is not None and any(self.nvidia.glob("*/lib/lib*.so*"))


def find_tensorflow(
    command: Sequence[str], environ: Mapping[str, str]
) -> InstalledTensorFlow | None:
    """Return the TensorFlow that ``command`` would import; None if its Python has none."""
    return find_frameworks(command, environ).tensorflow


def find_frameworks(command: Sequence[str], environ: Mapping[str, str]) -> Frameworks:
    """Return the frameworks that ``command`` would import.

    The command's Python looks for them, without importing any.
    """
    return _ask(python_of(command, environ), tuple(sorted(environ.items())))


@functools.lru_cache(maxsize=4)  # the bridge and the wheel support both ask
def _ask(python: str, environ: tuple[tuple[str, str], ...]) -> Frameworks:
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
            f"cannot query {python} for its frameworks: {error}", hint=f"try: {python} --version"
        ) from error
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    found = json.loads(line.removeprefix("FOUND ")) if line else {}
    folders = {name: Path(folder) for name, folder in found.items() if folder}
    tensorflow = None
    if "tensorflow" in folders:
        version = found["version"] or "unknown"
        tensorflow = InstalledTensorFlow(version, folders["tensorflow"], python)
    jax = folders.get("jax") if "jax_plugins" in folders else None
    return Frameworks(tensorflow, folders.get("torch"), jax, folders.get("nvidia"))


def _first_words(program: str) -> list[str]:
    """Return the words of a script's ``#!`` line, and of pip's ``exec`` line.

    pip writes that line below ``#!/bin/sh`` if the path of the Python interpreter is too long for
    the system.
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
