"""Uses binutils to read what the libraries in a wheel import from NVIDIA's libraries."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import BackendError, MissingDependencyError

_NVIDIA_LIBRARY = re.compile(r"lib(cu|nv|nccl)[A-Za-z_]*\.so\.[0-9]+")
_NVIDIA_NAME = re.compile(r"(__)?(cu[A-Za-z]|nv[A-Za-z]|nccl)\w*")
_NEEDED = re.compile(r"\(NEEDED\).*\[(.*)\]")


class Imports(NamedTuple):
    """What a wheel imports from NVIDIA's libraries: functions, symbol versions and sonames."""

    names: tuple[str, ...]
    versions: tuple[str, ...]
    sonames: tuple[str, ...]


def read_imports(libraries: Iterable[Path]) -> Imports:
    """Return what the libraries import from NVIDIA's and do not define themselves.

    Raises MissingDependencyError without ``nm`` and ``readelf``, and BackendError if they fail.
    """
    wanted: dict[str, str] = {}
    defined: set[str] = set()
    needed: set[str] = set()
    for library in libraries:
        wanted.update(_symbols(library, "--undefined-only"))
        defined.update(defined_names(library))
        needed.update(_NEEDED.findall(_output_of("readelf", "-d", str(library))))
    names = {name: version for name, version in wanted.items() if name not in defined}
    return Imports(
        names=tuple(sorted(names)),
        versions=tuple(sorted({version for version in names.values() if version})),
        sonames=tuple(sorted(filter(_NVIDIA_LIBRARY.fullmatch, needed))),
    )


def defined_names(library: Path) -> set[str]:
    """Return the NVIDIA functions that a library defines."""
    return set(_symbols(library, "--defined-only"))


def _symbols(library: Path, which: str) -> dict[str, str]:
    """Return a library's NVIDIA symbols, with the symbol version of each ("" for none)."""
    output = _output_of("nm", "-D", "--with-symbol-versions", which, str(library))
    parts = (line.split()[-1].partition("@") for line in output.splitlines())
    return {name: version.lstrip("@") for name, _, version in parts if _NVIDIA_NAME.fullmatch(name)}


def _output_of(tool: str, *words: str) -> str:
    if shutil.which(tool) is None:
        raise MissingDependencyError(
            f"a simulated GPU needs {tool} to read PyTorch's imports, but it is not on PATH",
            hint="apt-get install binutils",
        )
    done = subprocess.run(
        [tool, *words], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode != 0:
        raise BackendError(
            f"{tool} cannot read {words[-1]}: {done.stderr.strip()}",
            hint=f"try: {tool} {' '.join(words)}",
        )
    return done.stdout
