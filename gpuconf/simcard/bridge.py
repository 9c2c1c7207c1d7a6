"""The kernel bridge, which lets TensorFlow compute on a simulated GPU.

It is a C++ plugin (``native/bridge/``) that registers TensorFlow's own CPU kernels for the GPU as
well.  It is compiled once per TensorFlow, against that TensorFlow's headers, and cached.
TensorFlow loads it itself, from ``TF_PLUGGABLE_DEVICE_LIBRARY_PATH``.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gpuconf.errors import BackendError, MissingDependencyError
from gpuconf.simcard.compiling import (
    CXX,
    C,
    build_once,
    cache_folder,
    check_platform,
    compile_all,
    compiler_version,
    find_compiler,
    is_built,
)
from gpuconf.simcard.installed import InstalledTensorFlow, find_tensorflow, python_of

VARIABLE = "TF_PLUGGABLE_DEVICE_LIBRARY_PATH"
LIBRARY = "libgpuconf_bridge.so"
SOURCES = Path(__file__).parent / "native" / "bridge"

# The TensorFlow versions that were tested.  The bridge uses TensorFlow's C++ interfaces, which may
# change between versions; with an untested version it might compute wrong numbers.
TRIED_VERSIONS = ("2.15", "2.16", "2.17", "2.18", "2.19", "2.20", "2.21")

_HEADER = Path("tensorflow") / "core" / "framework" / "op_kernel.h"
_COMPILED_AGAINST = re.compile(r"tensorflow/(include/|libtensorflow)\S+,sha256=").match
_VERSION = re.compile(r"([0-9]+\.[0-9]+)\.[0-9]+")
_FLAGS = (
    *("-std=c++17", "-O2", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra"),
    # The flags of `tf.sysconfig.get_compile_flags()` in every tested version.
    *("-D_GLIBCXX_USE_CXX11_ABI=1", "-DEIGEN_MAX_ALIGN_BYTES=64"),
)
# The two slowest to compile.  The others are compiled as one file, because most of the time is
# spent in TensorFlow's headers, once per file.
_LONGEST = ("host_rnn.cc", "host_convolution.cc")
_LINK_FLAGS = ("-shared", "-l:libtensorflow_framework.so.2", "-l:libtensorflow_cc.so.2", "-ldl")


def bridge_for_command(
    command: Sequence[str],
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Path:
    """Return the bridge for the TensorFlow that ``command`` would import; build it if needed.

    ``progress`` receives a line before the build, which takes half a minute and happens only once.
    Raises MissingDependencyError if that Python has no TensorFlow, and the errors of
    `build_bridge`.
    """
    environ = os.environ if environ is None else environ
    return build_bridge(_tensorflow_of(command, environ), environ=environ, progress=progress)


def check_gpu_build(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Raise unless the TensorFlow that ``command`` would import has GPU devices.

    For a simulated GPU without the bridge, where only memory matters. Raises MissingDependencyError
    if that Python has no TensorFlow, and BackendError for a build without GPU support.
    """
    _check_is_cuda_build(_tensorflow_of(command, environ))


def _tensorflow_of(command: Sequence[str], environ: Mapping[str, str]) -> InstalledTensorFlow:
    tensorflow = find_tensorflow(command, environ)
    if tensorflow is None:
        python = python_of(command, environ)
        raise MissingDependencyError(
            f"{python}, which {command[0]!r} would run, has no tensorflow for a simulated GPU",
            hint=f"{python} -m pip install tensorflow; or, if the command uses another Python, "
            "activate its environment first",
        )
    return tensorflow


def build_bridge(
    tensorflow: InstalledTensorFlow,
    *,
    environ: Mapping[str, str] | None = None,
    progress: Callable[[str], None] | None = None,
    sources: Path = SOURCES,
) -> Path:
    """Return the bridge for one TensorFlow; build it if it is not in the cache.

    Raises MissingDependencyError without a C++ compiler or TensorFlow's headers. Raises
    BackendError if TensorFlow is untested or has no GPU support, if the cache cannot be written, or
    if the compiler fails (quoting the last lines of its output).
    """
    environ = os.environ if environ is None else environ
    check_platform()
    _check(tensorflow)
    compiler = find_compiler(environ, CXX)
    find_compiler(environ, C)  # the GPU needs it too: check before the long build
    folder = cache_folder(environ) / _fingerprint(tensorflow, compiler, sources)
    if progress is not None and not is_built(folder, [LIBRARY]):
        progress(
            f"building the kernel bridge for TensorFlow {tensorflow.version} "
            "(once; half a minute, more on a busy machine)"
        )
    return (
        build_once(folder, [LIBRARY], lambda made: _build(tensorflow, compiler, sources, made))
        / LIBRARY
    )


def _check(tensorflow: InstalledTensorFlow) -> None:
    version = _VERSION.fullmatch(tensorflow.version)
    if version is None or version[1] not in TRIED_VERSIONS:
        raise BackendError(
            f"the kernel bridge has been tested with TensorFlow {_listed(TRIED_VERSIONS)}, but "
            f"{tensorflow.python} has {tensorflow.version}: its numbers might be wrong there",
            hint=f"pip install 'tensorflow=={TRIED_VERSIONS[-1]}.*', in a separate environment",
        )
    _check_is_cuda_build(tensorflow)
    if not (tensorflow.headers / _HEADER).is_file():
        raise MissingDependencyError(
            f"the kernel bridge is compiled against TensorFlow's headers, but {tensorflow.headers} "
            f"has no {_HEADER}",
            hint="reinstall the whole wheel: pip install --force-reinstall --no-deps "
            f"tensorflow=={tensorflow.version}",
        )


def _check_is_cuda_build(tensorflow: InstalledTensorFlow) -> None:
    if not tensorflow.is_cuda_build:
        raise BackendError(
            f"TensorFlow {tensorflow.version} in {tensorflow.folder} has no GPU support "
            "(is it tensorflow-cpu?), which a simulated GPU needs",
            hint="pip uninstall tensorflow-cpu; pip install tensorflow (neither a GPU nor NVIDIA "
            "software is needed)",
        )


def _listed(versions: Sequence[str]) -> str:
    *most, last = versions
    return f"{', '.join(most)} and {last}" if most else last


def _fingerprint(tensorflow: InstalledTensorFlow, compiler: tuple[str, ...], sources: Path) -> str:
    """Return a name for the build, derived from TensorFlow, sources, compiler and flags."""
    facts = (
        tensorflow.version,
        _wheel(tensorflow),  # the library is linked by name; two copies may differ
        compiler,
        compiler_version(compiler),
        _FLAGS,
        _LINK_FLAGS,
    )
    digest = hashlib.sha256(repr(facts).encode())
    for source in sorted([*sources.glob("*.cc"), *sources.glob("*.h")]):
        digest.update(f"\0{source.name}\0".encode())
        digest.update(source.read_bytes())
    return f"bridge-{tensorflow.version}-{digest.hexdigest()[:16]}"


def _wheel(tensorflow: InstalledTensorFlow) -> Sequence[str]:
    """Return the hashes of headers and libraries in the wheel's RECORD, or else the folder.

    Two environments with the same wheel share one bridge: it contains no path to TensorFlow.
    """
    records = tensorflow.folder.parent.glob(f"*-{tensorflow.version}.dist-info/RECORD")
    lines = (line for each in records for line in each.read_text(encoding="utf-8").splitlines())
    return sorted(filter(_COMPILED_AGAINST, lines)) or [str(tensorflow.folder)]


def _build(
    tensorflow: InstalledTensorFlow, compiler: tuple[str, ...], sources: Path, made: Path
) -> None:
    rest = made / "rest.cc"
    others = sorted(file for file in sources.glob("*.cc") if file.name not in _LONGEST)
    rest.write_text("".join(f'#include "{file.name}"\n' for file in others), encoding="utf-8")
    files = [*(sources / name for name in _LONGEST), rest]
    flags = (
        *_FLAGS,
        f'-DGPUCONF_TENSORFLOW_VERSION="{tensorflow.version}"',
        *("-isystem", str(tensorflow.headers), "-I", str(sources)),
    )
    objects = [f"{file.stem}.o" for file in files]
    compile_all(
        (
            (*compiler, *flags, "-c", str(file), "-o", name)
            for file, name in zip(files, objects, strict=True)
        ),
        made,
    )
    link = ("-o", LIBRARY, *objects, f"-L{tensorflow.folder}", *_LINK_FLAGS)
    compile_all([(*compiler, *link)], made)
    for name in (*objects, rest.name):
        (made / name).unlink()
