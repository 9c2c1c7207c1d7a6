"""Which frameworks a command would run with, found without importing it."""

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


class Frameworks(NamedTuple):
    """The frameworks that a command would import; PyTorch and JAX by the folders of their packages.

    JAX only with plugins, without which it has no CUDA.  ``nvidia`` is the folder of NVIDIA's
    wheels.
    """

    tensorflow: InstalledTensorFlow | None = None
    torch: Path | None = None
    jax: Path | None = None
    nvidia: Path | None = None

    @property
    def has_nvidia_libraries(self) -> bool:
        """Whether NVIDIA's libraries are installed as wheels, and not only its compilers."""
        return self.nvidia is not None and any(self.nvidia.glob("*/lib/lib*.so*"))


def find_tensorflow(
    command: Sequence[str], environ: Mapping[str, str]
) -> InstalledTensorFlow | None:
    """The TensorFlow that ``command`` would import, or None if its Python has none."""
    return find_frameworks(command, environ).tensorflow


def find_frameworks(command: Sequence[str], environ: Mapping[str, str]) -> Frameworks:
    """The frameworks that ``command`` would import, asked of its Python, which imports none."""
    return _ask(python_of(command, environ), tuple(sorted(environ.items())))


@functools.lru_cache(maxsize=4)  # the bridge and the support of wheels are asked for in turn
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
            f"cannot ask {python} for its frameworks: {error}", hint=f"try: {python} --version"
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
