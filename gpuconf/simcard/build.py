"""Building the stand-in libraries with the machine's C compiler, once, into a cache.

The sources are in ``native/``.  What comes out is a folder to put first on
``LD_LIBRARY_PATH``: nothing in it is NVIDIA's, and nothing in it computes.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import BackendError, MissingDependencyError

NATIVE = Path(__file__).parent / "native"
_COMPILERS = ("cc", "gcc", "clang")
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
    *("-Wall", "-Wextra", "-Werror=implicit-function-declaration"),
    # Our own calls stay our own: TensorFlow defines every cu… name too, and may do so globally.
    "-Wl,-Bsymbolic",
)
_COMPILE_TIMEOUT_S = 120
_LINES_SHOWN = 12

_CARD = ("card.c", "process.c")
_ENGINE = ("visible.c", "devices.c", "context.c", "memory.c", "streams.c", "kernels.c")
_DRIVER = ("cuda_driver.c", "cuda_driver_memory.c", "cuda_driver_work.c")
_RUNTIME = ("cuda_runtime.c", "cuda_runtime_kernels.c", "eigen_fill.c")


class Library(NamedTuple):
    """One shared library: its file name, which is its soname, and what it is made of."""

    soname: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()


_WITH_DRIVER = ("-Wl,-rpath,$ORIGIN", "-L.", "-l:libcuda.so.1")

# The sonames that the CUDA builds of TensorFlow 2.15 (CUDA 12.2, cuDNN 8) and 2.16 to 2.21
# (CUDA 12.3 to 12.5, cuDNN 8 or 9) ask the dynamic linker for.
LIBRARIES = (
    Library("libcuda.so.1", (*_CARD, *_ENGINE, *_DRIVER)),
    Library("libcudart.so.12", _RUNTIME, _WITH_DRIVER),
    Library("libnvidia-ml.so.1", (*_CARD, "nvml.c", "nvml_use.c")),
    Library("libgpuconf_card.so", _CARD),
    Library("libcudnn.so.8", ("cudnn.c",), ("-DCUDNN_VERSION=8907",)),
    Library("libcudnn.so.9", ("cudnn.c",), ("-DCUDNN_VERSION=90300",)),
    Library("libcublas.so.12", ("math_libraries.c",)),
    Library("libcublasLt.so.12", ("math_libraries.c",)),
    Library("libcufft.so.11", ("math_libraries.c",)),
    Library("libcusolver.so.11", ("math_libraries.c",)),
    Library("libcusparse.so.12", ("math_libraries.c",)),
)


def build_libraries(*, environ: Mapping[str, str] | None = None, sources: Path = NATIVE) -> Path:
    """Return the folder of built libraries, building it if the cache has none.

    The cache is ``$XDG_CACHE_HOME`` or ``~/.cache``, below it a folder named by a hash of the
    sources, the compiler and its flags.  Two processes may build at once: each does so in a
    folder of its own, and the one that is finished later drops its work.

    Raises MissingDependencyError without a C compiler, and BackendError on another system than
    Linux and for a compiler that fails (with its last lines).
    """
    environ = os.environ if environ is None else environ
    if not sys.platform.startswith("linux"):
        raise BackendError(
            f"a simulated card needs Linux, and this is {sys.platform}",
            hint="run it in a Linux container or under WSL2",
        )
    compiler = find_compiler(environ)
    folder = cache_folder(environ) / _fingerprint(compiler, sources)
    if not folder.is_dir():
        _build_into(folder, compiler, sources)
    return folder


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Where built libraries are kept."""
    base = environ.get("XDG_CACHE_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".cache"
    )
    return Path(base) / "gpuconf" / "simcard"


def find_compiler(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The C compiler as the beginning of a command: ``$CC``, else cc, gcc or clang."""
    named = shlex.split(environ.get("CC", ""))
    for words in [named] if named else [[name] for name in _COMPILERS]:
        path = shutil.which(words[0], path=environ.get("PATH"))
        if path is not None:
            return (path, *words[1:])
    tried = f"$CC is {environ['CC']!r}, which" if named else "cc, gcc and clang"
    raise MissingDependencyError(
        f"a simulated card is built with a C compiler, and there is none ({tried} "
        f"{'is' if named else 'are'} not on PATH)",
        hint="apt-get install gcc libc6-dev (or your system's C compiler), or set CC",
    )


def _fingerprint(compiler: tuple[str, ...], sources: Path) -> str:
    """A name for what would be built: changes with sources, compiler and flags."""
    version = _run((*compiler, "--version"), sources)
    digest = hashlib.sha256(repr((compiler, version.stdout, _FLAGS, LIBRARIES)).encode())
    for source in sorted(sources.glob("*.[ch]")):
        digest.update(f"\0{source.name}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _build_into(folder: Path, compiler: tuple[str, ...], sources: Path) -> None:
    """Build in a folder beside ``folder``, then rename it: a half-built one is never seen."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="building-") as scratch:
        made = Path(scratch) / "lib"
        made.mkdir()
        for library in LIBRARIES:
            _compile(library, compiler, sources, made)
        try:
            made.rename(folder)
        except OSError:
            if not folder.is_dir():  # else somebody else was faster, with the same result
                raise


def _compile(library: Library, compiler: tuple[str, ...], sources: Path, made: Path) -> None:
    files = tuple(str(sources / name) for name in library.sources)
    output = ("-o", library.soname, f"-Wl,-soname,{library.soname}")
    done = _run((*compiler, *_FLAGS, *output, *files, *library.flags, "-ldl"), made)
    if done.returncode != 0:
        raise BackendError(
            f"{compiler[0]} could not build {library.soname}:\n{_last_lines(done.stderr)}",
            hint=f"set CC to another C compiler; the sources are in {sources}",
        )


def _run(command: Iterable[str], folder: Path) -> subprocess.CompletedProcess[str]:
    words = list(command)
    try:
        return subprocess.run(
            words,
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            timeout=_COMPILE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BackendError(
            f"the C compiler {words[0]} did not run: {error}",
            hint="set CC to a C compiler that works",
        ) from error


def _last_lines(text: str) -> str:
    lines = text.rstrip().splitlines()[-_LINES_SHOWN:]
    return "\n".join(f"  {line}" for line in lines)
