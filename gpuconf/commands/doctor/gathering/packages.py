"""The packages installed for a Python, read from files; none of them is imported.

The folders of ``sys.path`` are read directly; importlib.metadata would take 30 ms or more.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TypedDict

from packaging.utils import canonicalize_name

from gpuconf.commands.doctor.facts import Interpreter, KerasChoice, Package, Packages
from gpuconf.commands.doctor.gathering.builds import (
    read_jax_build,
    read_tensorflow_build,
    read_torch_build,
)
from gpuconf.commands.doctor.gathering.files import names_in, read_text
from gpuconf.commands.doctor.gathering.interpreter import python_on_path, this_interpreter
from gpuconf.commands.doctor.gathering.libraries import jax_libraries, read_libraries

# tensorflow-2.21.0.dist-info, protobuf-3.20.3-py3.10.egg-info
_DIST_INFO = re.compile(r"(.+?)-(\d[^-]*?)(?:-py[\d.]+)?(?:-[\w.]+)?\.(dist|egg)-info")
# Packages whose requirements are checked; the rest is left to pip.
_FRAMEWORKS = re.compile(
    r"tensorflow.*|tf-keras.*|tf-nightly.*|keras.*|jax.*|torch|torchvision|torchaudio"
)


class _Where(TypedDict):
    """Where to search for libraries."""

    root: str
    environ: Mapping[str, str]
    packages: Sequence[str]
    prefix: str


def read_packages(
    *, root: str, environ: Mapping[str, str], interpreter: Interpreter | None = None
) -> Packages:
    """Gather the packages, builds and CUDA libraries of ``interpreter``, by default this one."""
    python = interpreter or this_interpreter()
    folders = [path for path in python.paths if os.path.isdir(path)]
    build, installed = read_tensorflow_build(folders), _read_installed(folders)
    where: _Where = {"root": root, "environ": environ, "packages": folders, "prefix": python.prefix}
    return Packages(
        interpreter=python,
        on_path=python_on_path(environ, python),
        python=(python.version[0], python.version[1]),
        installed=installed,
        tensorflow=build,
        torch=read_torch_build(folders, environ),
        jax=read_jax_build(folders),
        libraries=read_libraries(build, **where),
        jax_libraries=jax_libraries(installed, **where),
        keras=read_keras_choice(environ),
    )


def _read_installed(folders: Sequence[str]) -> dict[str, Package]:
    """The distributions by normalized name; the first folder that has one wins."""
    found: dict[str, Package] = {}
    for folder in folders:
        for entry in names_in(folder):
            match = _DIST_INFO.fullmatch(entry) if entry.endswith("-info") else None
            if match is None:
                continue
            name = canonicalize_name(match[1])
            if name not in found:
                path = os.path.join(folder, entry, "METADATA")
                requires = _requirements(path) if _FRAMEWORKS.fullmatch(name) else ()
                found[name] = Package(name, match[2], requires)
    return found


def _requirements(path: str) -> tuple[str, ...]:
    """The Requires-Dist lines of a METADATA file."""
    header = (read_text(path) or "").partition("\n\n")[0]
    key = "Requires-Dist:"
    lines = (line for line in header.splitlines() if line.startswith(key))
    return tuple(line[len(key) :].strip() for line in lines)


def read_keras_choice(environ: Mapping[str, str]) -> KerasChoice:
    """KERAS_BACKEND if it is not empty, otherwise keras.json, otherwise tensorflow.

    Follows keras/src/backend/config.py.
    """
    named = environ.get("KERAS_BACKEND")
    if named:
        return KerasChoice(named, "KERAS_BACKEND")
    path = os.path.join(_keras_folder(environ), "keras.json")
    text = read_text(path)
    if text is None:
        return KerasChoice()
    try:
        config = json.loads(text)
        backend = config.get("backend", "tensorflow")
    except (ValueError, AttributeError) as error:
        # If the file is not JSON, Keras silently uses its defaults.
        problem = f"{path} cannot be read ({error}), and Keras ignores it"
        return KerasChoice(set_by=path, problem=problem)
    return KerasChoice(str(backend), path if "backend" in config else "Keras's default")


def _keras_folder(environ: Mapping[str, str]) -> str:
    if "KERAS_HOME" in environ:
        return environ["KERAS_HOME"]
    home = environ.get("HOME") or os.path.expanduser("~")
    return os.path.join(home if os.access(home, os.W_OK) else "/tmp", ".keras")
