"""CUDA 8.0 to 11 on the same simulated GPU, for TensorFlow 1.4 to 2.14, which require them.

For each CUDA release, a runtime library contains what CUDA 12 dropped or changed; it is linked to
``libcudart.so.12`` for the rest.  A single library of refusals replaces all math libraries.
TensorFlow up to 1.13 does not load unless some 350 functions exist (``native/old_cuda/names.txt``);
later ones fail when they call a missing function.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

REFUSALS = "libgpuconf_old_cuda.so"
VERSION_SCRIPT = "old_cuda.versions"
_HEADER = "refused_names.h"
_PREFIX = re.compile(r"cu[a-z]+")


class Release(NamedTuple):
    """A CUDA release: the number and name of its runtime, and the sonames of its math libraries."""

    number: int
    runtime: str
    math: tuple[str, ...]

    @property
    def soname(self) -> str:
        """The soname of the runtime."""
        return f"libcudart.so.{self.runtime}"


def _math(version: str, *names: str) -> tuple[str, ...]:
    return tuple(f"lib{name}.so.{version}" for name in names)


_ALL = ("cublas", "cufft", "curand", "cusolver", "cusparse")
RELEASES = (
    Release(8000, "8.0", _math("8.0", *_ALL)),  # TensorFlow 1.4
    Release(9000, "9.0", _math("9.0", *_ALL)),  # 1.5 to 1.12
    Release(10000, "10.0", _math("10.0", *_ALL)),  # 1.13 to 2.0
    Release(10010, "10.1", _math("10", *_ALL)),  # 2.1 to 2.3
    # 2.4 to 2.14; its other libraries have the sonames of 10.1 or of CUDA 12.
    Release(11000, "11.0", _math("11", "cublas", "cublasLt", "cusparse")),
)
CUDNN_VERSIONS = {"libcudnn.so.6": 6021, "libcudnn.so.7": 7605}

# The sonames that are aliases of REFUSALS.
ALIASES = tuple(soname for release in RELEASES for soname in release.math)


def refused_names(sources: Path) -> list[str]:
    """Return the function names in ``native/old_cuda/names.txt``."""
    lines = (sources / "old_cuda" / "names.txt").read_text(encoding="utf-8").splitlines()
    return [name for line in lines if not line.startswith("#") for name in line.split()]


def write_inputs(sources: Path, folder: Path, newer: Sequence[str] = ()) -> tuple[Path, ...]:
    """Write the compiler's and linker's input files into ``folder``, and return them.

    The header included by ``refusals.c`` contains a macro call for each function.  The version
    script declares each soname, including the ``newer`` ones, as a symbol version.  The real
    libraries have these versions, and a TensorFlow or PyTorch linked to them requires them when it
    loads; symbols without a version satisfy any.
    """
    calls = (f"REFUSE_{_prefix(name)}({name})\n" for name in refused_names(sources))
    sonames = (*newer, *(release.soname for release in RELEASES), *CUDNN_VERSIONS, *ALIASES)
    header, script = folder / _HEADER, folder / VERSION_SCRIPT
    header.write_text("".join(calls), encoding="utf-8")
    script.write_text("".join(f"{soname} {{ }};\n" for soname in sonames), encoding="utf-8")
    return header, script


def _prefix(name: str) -> str:
    """Return the library of a function: ``cublas`` for ``cublasSgemm_v2``."""
    found = _PREFIX.match(name)
    assert found is not None, name
    return found[0]
