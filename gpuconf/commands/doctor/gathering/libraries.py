"""The CUDA libraries that TensorFlow and JAX open: where they are, whether TensorFlow's will open.

TensorFlow's libraries are opened in a small child process: some are hundreds of megabytes, their
initializers run third-party code, and a broken one may end the process that opens it.

TensorFlow opens them by soname at startup, from libtensorflow_framework and libtensorflow_cc. Those
have a RUNPATH with $ORIGIN/../nvidia/*/lib (readelf -d, 2.15 to 2.21), so the order is the one in
ld.so(8): LD_LIBRARY_PATH, then NVIDIA's pip packages, then /etc/ld.so.cache, then the default
folders. conda's builds search the lib folder of their environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuconf.commands.doctor.facts import CudaLibrary, Package, TensorFlowBuild
from gpuconf.commands.doctor.gathering.files import names_in, under

_TIMEOUT_S = 20.0

# Sonames by CUDA's major version, from the wheels themselves (strings of
# libtensorflow_framework.so.2 and libtensorflow_cc.so.2) and, for 11 and 13, from NVIDIA's packages
# for those versions.
_SONAMES = {
    "11": {"cudart": "11.0", "cublas": "11", "cublasLt": "11", "cufft": "10", "cusolver": "11",
           "cusparse": "11"},
    "12": {"cudart": "12", "cublas": "12", "cublasLt": "12", "cufft": "11", "cusolver": "11",
           "cusparse": "12"},
    "13": {"cudart": "13", "cublas": "13", "cublasLt": "13", "cufft": "12", "cusolver": "12",
           "cusparse": "12"},
}  # fmt: skip

# The libraries whose versions jax_plugins/xla_cuda12/__init__.py of 0.10.2 queries.
_JAX_SONAMES = {
    "12": {"cudart": "12", "cudnn": "9", "cufft": "11", "cupti": "12", "cublas": "12",
           "cusparse": "12"},
    "13": {"cudart": "13", "cudnn": "9", "cufft": "12", "cupti": "13", "cublas": "13",
           "cusparse": "12"},
}  # fmt: skip

# Runs with the paths as JSON; prints the loader's error or the library's version for each.
_OPEN = """
import ctypes, json, sys
found = {}
for path in json.loads(sys.argv[1]):
    problem = version = None
    try:
        library = ctypes.CDLL(path)
        if "libcudnn" in path:
            version = int(ctypes.c_size_t(library.cudnnGetVersion()).value)
    except (OSError, AttributeError) as error:
        problem = str(error)
    found[path] = [problem, version]
    print(json.dumps(found), flush=True)
"""
_DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/lib/wsl/lib")


def read_libraries(
    build: TensorFlowBuild | None,
    *,
    root: str,
    environ: Mapping[str, str],
    packages: Sequence[str],
    prefix: str = sys.prefix,
) -> tuple[CudaLibrary, ...]:
    """Each library that ``build`` needs, found or not; empty for a build without CUDA."""
    wanted = wanted_sonames(build)
    found = _find_all(wanted, root=root, environ=environ, packages=packages, prefix=prefix)
    opened = _open_all([library.path for library in found if library.path is not None], environ)
    return tuple(_with_opened(library, opened) for library in found)


def jax_libraries(
    installed: Mapping[str, Package],
    *,
    root: str,
    environ: Mapping[str, str],
    packages: Sequence[str],
    prefix: str = sys.prefix,
) -> tuple[CudaLibrary, ...]:
    """Each library whose version JAX's CUDA plugin queries, found or not."""
    wanted = {
        name: f"lib{name}.so.{number}"
        for major, known in _JAX_SONAMES.items()
        if f"jax-cuda{major}-plugin" in installed
        for name, number in known.items()
    }
    return tuple(_find_all(wanted, root=root, environ=environ, packages=packages, prefix=prefix))


def _find_all(
    sonames: Mapping[str, str],
    *,
    root: str,
    environ: Mapping[str, str],
    packages: Sequence[str],
    prefix: str,
) -> list[CudaLibrary]:
    """Each library by name, with its path if found."""
    conda = prefix if os.path.isdir(os.path.join(prefix, "conda-meta")) else None
    found = []
    for name, soname in sonames.items():
        file = find_library(soname, root=root, environ=environ, packages=packages, prefix=conda)
        path, place = (file.path, file.place) if file else (None, None)
        found.append(CudaLibrary(name, soname, path, place))
    return found


def wanted_sonames(build: TensorFlowBuild | None) -> dict[str, str]:
    """The libraries that ``build`` opens: name -> soname."""
    if build is None or not build.is_cuda or not build.cuda_version:
        return {}
    known = _SONAMES.get(build.cuda_version.split(".")[0], {})
    sonames = {name: f"lib{name}.so.{number}" for name, number in known.items()}
    if build.cudnn_version:
        sonames["cudnn"] = f"libcudnn.so.{build.cudnn_version.split('.')[0]}"
    return sonames


def _with_opened(
    library: CudaLibrary, opened: Mapping[str, tuple[str | None, int | None]]
) -> CudaLibrary:
    problem, version = opened.get(library.path or "", (None, None))
    return library._replace(problem=problem, version=cudnn_version(version))


def cudnn_version(number: int | None) -> str | None:
    """Convert the number from cudnnGetVersion: 8907 is 8.9.7; since version 9, 90300 is 9.3.0."""
    if not number:
        return None
    thousand = 10_000 if number >= 90_000 else 1_000
    return f"{number // thousand}.{number % thousand // 100}.{number % 100}"


def _open_all(
    paths: Sequence[str], environ: Mapping[str, str]
) -> dict[str, tuple[str | None, int | None]]:
    """For each path, the loader's error (or None) and the version, from a child process."""
    if not paths or sys.platform == "win32":  # no framework opens such libraries there
        return {}
    command = [sys.executable, "-I", "-S", "-c", _OPEN, json.dumps(paths)]
    try:
        done = subprocess.run(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            text=True,
            timeout=_TIMEOUT_S,
        )
        how, lines = f"it ended the process ({done.returncode})", done.stdout.splitlines()
    except subprocess.TimeoutExpired as error:
        how, lines = f"it did not load within {_TIMEOUT_S:.0f} s", _lines(error.stdout)
    found = _last_record(lines)
    missing = [path for path in paths if path not in found]
    found.update({path: (how if path == missing[0] else None, None) for path in missing})
    return {path: (problem, version) for path, (problem, version) in found.items()}


def _last_record(lines: Sequence[str]) -> dict[str, tuple[str | None, int | None]]:
    """The last of the child's lines; a library's initializer may print other lines."""
    for line in reversed(lines):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            return found
    return {}


def _lines(output: str | bytes | None) -> list[str]:
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or ""
    return text.splitlines()


class _Found(NamedTuple):
    """A library's path, and a description of where it was found."""

    path: str
    place: str


def find_library(
    soname: str,
    *,
    root: str,
    environ: Mapping[str, str],
    packages: Sequence[str] = (),
    prefix: str | None = None,
) -> _Found | None:
    """The file that opening ``soname`` would load.

    ``packages`` are the folders of pip packages, and ``prefix`` is the folder of a conda
    environment.
    """
    for folder in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        if os.path.exists(os.path.join(folder, soname)):
            return _Found(os.path.join(folder, soname), "LD_LIBRARY_PATH")
    for folder in packages:
        path = _in_nvidia_package(folder, soname)
        if path is not None:
            return _Found(path, "pip")
    if prefix is not None and os.path.exists(os.path.join(prefix, "lib", soname)):
        return _Found(os.path.join(prefix, "lib", soname), "conda")
    path = _in_cache(soname, root)
    if path is not None:
        return _Found(path, "the system")
    for folder in _DEFAULT_FOLDERS:
        path = under(root, f"{folder}/{soname}")
        if os.path.exists(path):
            return _Found(path, "the system")
    return None


def _in_nvidia_package(folder: str, soname: str) -> str | None:
    """NVIDIA's wheels install libraries in nvidia/<name>/lib; since CUDA 13 in nvidia/cu13/lib."""
    nvidia = os.path.join(folder, "nvidia")
    for name in names_in(nvidia):
        path = os.path.join(nvidia, name, "lib", soname)
        if os.path.exists(path):
            return path
    return None


def _in_cache(soname: str, root: str) -> str | None:
    """The path in ld.so.cache, a table of NUL-terminated names and paths (glibc's dl-cache.h)."""
    try:
        with open(under(root, "/etc/ld.so.cache"), "rb") as file:
            table = file.read()
    except OSError:
        return None
    ending = f"/{soname}\0".encode()
    end = table.find(ending)
    while end >= 0:
        listed = table[table.rfind(b"\0", 0, end) + 1 : end + len(ending) - 1]
        path = under(root, os.fsdecode(listed))
        if listed.startswith(b"/") and os.path.exists(path):
            return path
        end = table.find(ending, end + 1)
    return None
