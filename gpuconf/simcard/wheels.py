"""What PyTorch and JAX need on a simulated card beyond its own libraries.

PyTorch is linked to NVIDIA's libraries: it is not loaded unless each function that it imports is
there, some 700 of them.  Those that the card does not have are written from the wheel's own
imports, once: each says its name when called and returns its library's own error.  JAX looks for
a device file before it looks for CUDA.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import BackendError, MissingDependencyError
from gpuconf.simcard.compiling import (
    build_once,
    cache_folder,
    compile_all,
    compiler_version,
    find_compiler,
)
from gpuconf.simcard.installed import find_frameworks
from gpuconf.simcard.libraries import build_libraries

_REFUSALS = "libgpuconf_refusals.so"
_SOURCE = Path(__file__).parent / "native" / "refusals.h"
_FLAGS = ("-std=c11", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic")
_NVIDIA = re.compile(r"lib(cu|nv|nccl)[A-Za-z_]*\.so\.[0-9]+")
# NVIDIA's names, but not those of PyTorch's own C++ and of the driver, which is the card's.
_IMPORT = re.compile(r"(?:__)?(?:cu[A-Za-z]|nv[a-zA-Z]|nccl)\w*")
_DEVICE_FILES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")


class WheelSupport(NamedTuple):
    """What `Card.environment` adds for PyTorch and JAX; nothing where neither is there."""

    folder: Path | None = None
    """Stand-ins for the libraries that PyTorch imports from."""
    device_files: bool = False
    """Whether the programs must be shown a device file, for JAX."""


class Imports(NamedTuple):
    """What a wheel's libraries want from NVIDIA's: names, the version of each, and sonames."""

    names: tuple[str, ...]
    versions: tuple[str, ...]
    sonames: tuple[str, ...]


def support_for_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> WheelSupport:
    """What the PyTorch and the JAX that ``command`` would import need, built if need be.

    ``progress`` is given a line before a build.  Raises what `build_libraries` raises, and
    MissingDependencyError without ``nm`` and ``readelf``.
    """
    environ = os.environ if environ is None else environ
    found = find_frameworks(command, environ)
    folder = None
    if found.torch is not None:
        folder = build_refusals(found.torch, environ=environ, progress=progress)
    has_device = any(map(os.path.exists, _DEVICE_FILES))
    return WheelSupport(folder, device_files=found.jax is not None and not has_device)


def build_refusals(
    torch: Path,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path | None:
    """Return the folder of stand-ins for a PyTorch's imports, building it if the cache has none.

    ``torch`` is the folder of its package.  None for a PyTorch without CUDA.
    """
    environ = os.environ if environ is None else environ
    libraries = sorted((torch / "lib").glob("*.so*"))
    if not any(library.name == "libtorch_cuda.so" for library in libraries):
        return None
    card = build_libraries(environ=environ)
    compiler = find_compiler(environ)
    folder = cache_folder(environ) / _fingerprint(libraries, card, compiler)
    if progress is not None and not folder.is_dir():
        progress("building stand-ins for the libraries that PyTorch imports from (once)")
    return build_once(folder, [_REFUSALS], lambda made: _build(libraries, card, compiler, made))


def read_imports(libraries: Iterable[Path]) -> Imports:
    """What the libraries import from NVIDIA's and none of them defines."""
    wanted: dict[str, str] = {}
    defined: set[str] = set()
    sonames: set[str] = set()
    for library in libraries:
        wanted.update(_symbols(library, "--undefined-only"))
        defined.update(_symbols(library, "--defined-only"))
        dynamic = _tool("readelf", "-d", str(library))
        sonames.update(
            name for name in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic) if _NVIDIA.fullmatch(name)
        )
    names = {name: version for name, version in wanted.items() if name not in defined}
    return Imports(
        tuple(sorted(names)),
        tuple(sorted({version for version in names.values() if version})),
        tuple(sorted(sonames)),
    )


def _symbols(library: Path, which: str) -> dict[str, str]:
    """NVIDIA's names among a library's, with the symbol version of each ("" for none)."""
    found = {}
    for line in _tool("nm", "-D", "--with-symbol-versions", which, str(library)).splitlines():
        name, _, version = line.split()[-1].partition("@")
        if _IMPORT.fullmatch(name):
            found[name] = version.lstrip("@")
    return found


def _tool(*words: str) -> str:
    if shutil.which(words[0]) is None:
        raise MissingDependencyError(
            f"a simulated card reads PyTorch's imports with {words[0]}, which is not on PATH",
            hint="apt-get install binutils",
        )
    done = subprocess.run(words, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode != 0:
        raise BackendError(
            f"{words[0]} could not read {words[-1]}: {done.stderr.strip()}",
            hint=f"try: {' '.join(words)}",
        )
    return done.stdout


def _fingerprint(libraries: Sequence[Path], card: Path, compiler: tuple[str, ...]) -> str:
    sizes = [(library.name, library.stat().st_size) for library in libraries]
    digest = hashlib.sha256(repr((sizes, card.name, compiler, compiler_version(compiler))).encode())
    digest.update(_SOURCE.read_bytes())
    digest.update(Path(__file__).read_bytes())
    return f"torch-{digest.hexdigest()[:16]}"


def _build(libraries: Sequence[Path], card: Path, compiler: tuple[str, ...], made: Path) -> None:
    """One library of refusals, under the name of each library that the card does not have."""
    imports = read_imports(libraries)
    stand_ins = [card / soname for soname in imports.sonames if (card / soname).exists()]
    there = {name for file in stand_ins for name in _symbols(file, "--defined-only")}
    source, script = made / "refusals.c", made / "refusals.versions"
    refused = (f"REFUSE({name})\n" for name in imports.names if name not in there)
    source.write_text(f'#include "{_SOURCE}"\n{"".join(refused)}', encoding="utf-8")
    versions = sorted({*imports.versions, *imports.sonames})
    script.write_text("".join(f"{version} {{ }};\n" for version in versions), encoding="utf-8")
    output = ("-o", _REFUSALS, f"-Wl,-soname,{_REFUSALS}", f"-Wl,--version-script,{script.name}")
    compile_all([(*compiler, *_FLAGS, *output, source.name)], made)
    for soname in imports.sonames:
        if not (card / soname).exists():
            (made / soname).symlink_to(_REFUSALS)
    source.unlink()
    script.unlink()
