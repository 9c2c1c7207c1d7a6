"""Where the dynamic loader would find a library, without loading it.

TensorFlow opens its CUDA libraries by their sonames, when it starts, from libtensorflow_framework
and libtensorflow_cc.  Those carry a RUNPATH with $ORIGIN/../nvidia/*/lib (readelf -d, 2.15 to
2.21), so the order is that of ld.so(8): LD_LIBRARY_PATH, then NVIDIA's pip packages, then
/etc/ld.so.cache, then the default folders.  conda's builds look in their environment's lib.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpuconf.doctor.gathering.files import names_in, under

_DEFAULT_FOLDERS = ("/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/lib/wsl/lib")


class Found(NamedTuple):
    """A library's path, and in words where it is from."""

    path: str
    place: str


def find_library(
    soname: str,
    *,
    root: str,
    environ: Mapping[str, str],
    packages: Sequence[str] = (),
    prefix: str | None = None,
) -> Found | None:
    """The file that opening ``soname`` would take.

    ``packages`` are the folders of pip packages, ``prefix`` is that of a conda environment.
    """
    for folder in filter(None, environ.get("LD_LIBRARY_PATH", "").split(":")):
        if os.path.exists(os.path.join(folder, soname)):
            return Found(os.path.join(folder, soname), "LD_LIBRARY_PATH")
    for folder in packages:
        path = _in_nvidia_package(folder, soname)
        if path is not None:
            return Found(path, "pip")
    if prefix is not None and os.path.exists(os.path.join(prefix, "lib", soname)):
        return Found(os.path.join(prefix, "lib", soname), "conda")
    path = _in_cache(soname, root)
    if path is not None:
        return Found(path, "the system")
    for folder in _DEFAULT_FOLDERS:
        path = under(root, f"{folder}/{soname}")
        if os.path.exists(path):
            return Found(path, "the system")
    return None


def _in_nvidia_package(folder: str, soname: str) -> str | None:
    """NVIDIA's wheels put each library in nvidia/<what>/lib; since CUDA 13 in nvidia/cu13/lib."""
    nvidia = os.path.join(folder, "nvidia")
    for name in names_in(nvidia):
        path = os.path.join(nvidia, name, "lib", soname)
        if os.path.exists(path):
            return path
    return None


def _in_cache(soname: str, root: str) -> str | None:
    """The path in /etc/ld.so.cache, a table of NUL-ended names and paths (glibc's dl-cache.h)."""
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
