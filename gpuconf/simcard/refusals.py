"""Generates stand-ins for the NVIDIA libraries that a PyTorch build imports from.

PyTorch is linked against NVIDIA's libraries and does not load unless all of some 700 imported
functions exist. The functions that the GPU lacks go into one library, with a link to it for each
missing library. When called, a function prints its name and returns its library's error code
(``native/refusals.h``).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuconf.simcard.compiling import (
    build_once,
    cache_folder,
    compile_all,
    compiler_version,
    find_compiler,
    is_built,
)
from gpuconf.simcard.imports import defined_names, read_imports
from gpuconf.simcard.libraries import LIBRARIES, build_libraries

LIBRARY = "libgpuconf_refusals.so"
_HEADER = Path(__file__).parent / "native" / "refusals.h"
_FLAGS = ("-std=c11", "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wl,-Bsymbolic")


def build_refusals(
    torch: Path,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path | None:
    """Return the folder of stand-ins for a PyTorch build; create it if it is not in the cache.

    ``torch`` is the folder of the PyTorch package; the result is None for a PyTorch without CUDA.
    The folder contains every NVIDIA soname that PyTorch requires; those that the simulated GPU also
    has are links to its libraries. The folder's name depends on the GPU's libraries, and on the
    names and sizes of PyTorch's libraries, because reading their imports takes a second. Raises the
    errors of `build_libraries` and `read_imports`.
    """
    environ = os.environ if environ is None else environ
    libraries = sorted((torch / "lib").glob("lib*.so*"))
    if not any(library.name == "libtorch_cuda.so" for library in libraries):
        return None
    card = build_libraries(environ=environ)
    compiler = find_compiler(environ)
    folder = cache_folder(environ) / _fingerprint(libraries, card, compiler)
    if progress is not None and not is_built(folder, [LIBRARY]):
        progress("building stand-ins for the libraries that PyTorch imports from (once)")
    return build_once(folder, [LIBRARY], lambda made: _build(libraries, card, compiler, made))


def _fingerprint(libraries: Sequence[Path], card: Path, compiler: tuple[str, ...]) -> str:
    sizes = [(library.name, library.stat().st_size) for library in libraries]
    facts = (sizes, card.name, compiler, compiler_version(compiler), _FLAGS)
    digest = hashlib.sha256(repr(facts).encode())
    digest.update(_HEADER.read_bytes() + Path(__file__).read_bytes())
    return f"torch-{digest.hexdigest()[:16]}"


def _build(libraries: Sequence[Path], card: Path, compiler: tuple[str, ...], made: Path) -> None:
    imports = read_imports(libraries)
    usable = {each.soname for each in LIBRARIES}
    on_card = [soname for soname in imports.sonames if soname in usable]
    there = {name for soname in on_card for name in defined_names(card / soname)}
    calls = (f"REFUSE({name})\n" for name in imports.names if name not in there)
    source, script = made / "refusals.c", made / "refusals.versions"
    source.write_text(f'#include "{_HEADER.name}"\n{"".join(calls)}', encoding="utf-8")
    # PyTorch requires these versions; symbols without one satisfy any.
    versions = sorted({*imports.versions, *imports.sonames})
    script.write_text("".join(f"{version} {{ }};\n" for version in versions), encoding="utf-8")
    output = ("-o", LIBRARY, f"-Wl,-soname,{LIBRARY}", f"-Wl,--version-script={script.name}")
    compile_all([(*compiler, *_FLAGS, f"-I{_HEADER.parent}", *output, source.name)], made)
    for soname in imports.sonames:
        target = Path("..", card.name, soname) if soname in on_card else LIBRARY
        (made / soname).symlink_to(target)
    source.unlink()
    script.unlink()
