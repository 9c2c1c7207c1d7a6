"""The stand-in libraries, built once with the machine's C compiler and cached.

The sources are in ``native/``. The result is a folder to put first on ``LD_LIBRARY_PATH``. It
contains nothing from NVIDIA, and nothing in it computes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.simcard.compiling import (
    build_once,
    cache_folder,
    check_platform,
    compile_all,
    compiler_version,
    find_compiler,
)

NATIVE = Path(__file__).parent / "native"
_VERSION_SCRIPT = "sonames.versions"
_FLAGS = (
    *("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread"),
    *("-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror=implicit-function-declaration"),
    # Bind our calls to our functions: TensorFlow also defines every cu… name, perhaps globally.
    "-Wl,-Bsymbolic",
    f"-Wl,--version-script={_VERSION_SCRIPT}",
)

_CARD = ("card.c", "process.c")
_ENGINE = (
    "visible.c",
    "devices.c",
    "context.c",
    "ranges.c",
    "memory.c",
    "virtual_memory.c",
    "streams.c",
    "kernels.c",
    "fills.c",
)
_DRIVER = (
    "cuda_driver.c",
    "cuda_driver_memory.c",
    "cuda_driver_work.c",
    "cuda_driver_modules.c",
    "cuda_driver_lookup.c",
    "cuda_driver_refused.c",
)
_RUNTIME = (
    "cuda_runtime.c",
    "cuda_runtime_streams.c",
    "cuda_runtime_kernels.c",
    "cuda_runtime_memory.c",
    "cuda_runtime_properties.c",
)
_CUDNN = ("cudnn.c", "cudnn_backend.c")
_CUDNN_AT_WORK = (*_CUDNN, "cudnn_convolutions.c", "cudnn_layers.c", "cudnn_recurrent.c")


class Library(NamedTuple):
    """A shared library: its file name, which is its soname, its sources and its flags.

    Sources are file names in ``native/``, or absolute paths.  ``links`` are the other stand-in
    libraries that it calls.
    """

    soname: str
    sources: tuple[str, ...]
    flags: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


_DRIVER_NAME = "libcuda.so.1"
# JAX sees a GPU only if there is a device file (native/device_files.c).
DEVICE_FILES = "libgpuconf_device_files.so"
# The math libraries of CUDA 12 and 13, with the number in their sonames.
_MATH = {
    12: {"cublas": 12, "cublasLt": 12, "cufft": 11, "cusolver": 11, "cusparse": 12, "cupti": 12},
    13: {"cublas": 13, "cublasLt": 13, "cufft": 12, "cusolver": 12, "cupti": 13},
}
_MATH_SONAMES = {
    f"lib{name}.so.{number}": cuda
    for cuda, names in _MATH.items()
    for name, number in names.items()
}


def _math_sources(soname: str) -> tuple[str, ...]:
    works = soname.startswith("libcublas")
    return ("math_libraries.c", "cublas_work.c") if works else ("math_libraries.c",)


# Libraries that JAX loads by name, and that NVIDIA's wheels may also contain.
SONAMES_OF_JAX = (*_MATH_SONAMES, "libcudnn.so.9")

# The sonames that the dynamic linker needs for the CUDA builds of TensorFlow 2.15 (CUDA 12.2, cuDNN
# 8), of 2.16 to 2.21 (CUDA 12.3 to 12.5, cuDNN 8 or 9), of PyTorch 2.4 to 2.15 and of JAX 0.4.30 to
# 0.10 (CUDA 12 and 13).
LIBRARIES = (
    Library(_DRIVER_NAME, (*_CARD, *_ENGINE, *_DRIVER)),
    Library("libcudart.so.12", _RUNTIME, ("-DCUDA_MAJOR=12",), (_DRIVER_NAME,)),
    Library("libcudart.so.13", _RUNTIME, ("-DCUDA_MAJOR=13",), (_DRIVER_NAME,)),
    Library(DEVICE_FILES, ("device_files.c",)),
    Library("libnvidia-ml.so.1", (*_CARD, "nvml.c", "nvml_use.c")),
    Library("libgpuconf_card.so", _CARD),
    Library("libcudnn.so.8", _CUDNN_AT_WORK, ("-DCUDNN_VERSION=8907",)),
    Library("libcudnn.so.9", _CUDNN_AT_WORK, ("-DCUDNN_VERSION=92000",)),
    *(
        Library(soname, _math_sources(soname), (f"-DCUDA_MAJOR={cuda}",))
        for soname, cuda in _MATH_SONAMES.items()
    ),
)


def build_libraries(
    *,
    environ: Mapping[str, str] | None = None,
    sources: Path = NATIVE,
    libraries: Sequence[Library] = LIBRARIES,
) -> Path:
    """Return the folder of built ``libraries``; build it if it is not in the cache.

    Its name is a hash of the sources, the compiler and its flags.  Raises MissingDependencyError
    without a C compiler. Raises BackendError on systems other than Linux, if the cache cannot be
    written, or if the compiler fails (quoting the last lines of its output).
    """
    environ = os.environ if environ is None else environ
    check_platform()
    compiler = find_compiler(environ)
    folder = cache_folder(environ) / _fingerprint(compiler, sources, libraries)
    names = [each.soname for each in libraries]
    return build_once(folder, names, lambda made: _build(compiler, sources, libraries, made))


def _fingerprint(compiler: tuple[str, ...], sources: Path, libraries: Sequence[Library]) -> str:
    """Return a name for the build, derived from the sources, names, compiler and flags."""
    parts = (compiler, compiler_version(compiler), _FLAGS, libraries)
    digest = hashlib.sha256(repr(parts).encode())
    named = {sources / name for each in libraries for name in each.sources}
    for source in sorted(named.union(sources.glob("*.h"))):
        digest.update(f"\0{source.name}\0".encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _build(
    compiler: tuple[str, ...], sources: Path, libraries: Sequence[Library], made: Path
) -> None:
    """Compile the libraries in the order of their links: first the ones without links.

    Each declares the sonames as symbol versions. NVIDIA's libraries have symbol versions, and a
    program linked against them requires those versions when it loads; symbols without a version
    satisfy any requirement.
    """
    script = made / _VERSION_SCRIPT
    # A version has no hyphen, and nothing is linked to libnvidia-ml.so.1.
    versions = [each.soname for each in libraries if "-" not in each.soname]
    script.write_text("".join(f"{version} {{ }};\n" for version in versions), encoding="utf-8")
    for links in range(3):
        these = [each for each in libraries if len(each.links) == links]
        compile_all((_command(each, compiler, sources) for each in these), made)
    script.unlink()


def _command(library: Library, compiler: tuple[str, ...], sources: Path) -> tuple[str, ...]:
    files = tuple(str(sources / name) for name in library.sources)
    output = ("-o", library.soname, f"-Wl,-soname,{library.soname}")
    links = ("-Wl,-rpath,$ORIGIN", "-L.", *(f"-l:{name}" for name in library.links))
    return (*compiler, *_FLAGS, *library.flags, *output, *files, *links, "-ldl")
