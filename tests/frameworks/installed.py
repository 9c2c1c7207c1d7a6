"""PyTorch and JAX with CUDA, and accelerate, each in its own folder, put there on first use.

They are the wheels of the package index, without the NVIDIA libraries that they would pull in: the
simulated GPU stands for those.  A program gets one by its folder on PYTHONPATH, and everything
else, Keras and TensorFlow too, from the environment of the tests.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".frameworks"
# What the gate runs, from Python 3.11 on; `make matrix` has more.
GATE = {"torch": "2.15.0", "jax": "0.10.2", "accelerate": "1.15.0"}
_OF_TORCH = ("sympy", "networkx", "mpmath", "jinja2", "MarkupSafe", "fsspec", "filelock")
_OF_JAX = ("opt_einsum", "scipy")
_OF_ACCELERATE = ("huggingface_hub", "httpx", "httpcore", "h11", "anyio", "safetensors", "tqdm")
_READY = ".ready"


class InstallationError(Exception):
    """pip could not install a framework; the text has its last lines."""


def folder_of(framework: str, version: str | None = None, python: str = sys.executable) -> Path:
    """The folder that holds ``framework``, installed on the first use for ``python``.

    Raises InstallationError where the index has no such wheel for this Python.  A test that wants
    the gate's is skipped below Python 3.11, for which they are not built.
    """
    if version is None and sys.version_info < (3, 11):
        pytest.skip("needs Python 3.11, as these PyTorch and JAX do")
    version = version or GATE[framework]
    folder = FOLDER / f"{framework}-{version}"
    if (folder / _READY).exists():
        return folder
    FOLDER.mkdir(exist_ok=True)
    with open(FOLDER / f".{folder.name}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run in several processes
        if not (folder / _READY).exists():
            _install(folder, packages(framework, version), python)
    return folder


def packages(framework: str, version: str) -> Sequence[str]:
    """What pip installs, nothing more: neither has its usual requirements."""
    if framework == "torch":
        # With == pip prefers 2.13.0+cpu where the index has it too.
        return (f"torch==={version}", *_OF_TORCH)
    if framework == "accelerate":  # goes next to torch
        return (f"accelerate=={version}", *_OF_ACCELERATE)
    parts = ("jax", "jaxlib", "jax-cuda12-plugin", "jax-cuda12-pjrt")
    return (*(f"{part}=={version}" for part in parts), *_OF_JAX)


def _install(folder: Path, names: Sequence[str], python: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of an installation that was interrupted
    options = ("--no-deps", "--no-compile", "--only-binary=:all:", "--quiet", "--target")
    command = [python, "-m", "pip", "install", *options, str(folder), *names]
    done = subprocess.run(command, env=_plain(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = "\n".join(done.stderr.strip().splitlines()[-5:])
        raise InstallationError(f"pip could not install {names[0]}:\n{last}")
    (folder / _READY).touch()


def _plain() -> dict[str, str]:
    """The environment without the paths of tests, which would go first for pip too.

    The versions are given; constraints of this machine's pip could only refuse them.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, "PIP_CONSTRAINT": os.devnull}


if __name__ == "__main__":
    for wanted in GATE:
        print(folder_of(wanted))
