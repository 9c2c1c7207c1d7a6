"""What TensorFlow's XLA needs to compile for a simulated GPU: a toolkit without an assembler.

XLA generates PTX and calls ptxas to assemble it. No kernel ever runs here, so a script replaces
ptxas and leaves the PTX unchanged. libdevice, the bitcode of functions such as ``pow``, must be
real: it comes from NVIDIA's wheel (``pip install 'gpuconf[xla]'``), or else from a CUDA
installation.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpuconf.errors import MissingDependencyError
from gpuconf.simcard.compiling import build_once, cache_folder
from gpuconf.simcard.installed import Frameworks, find_frameworks

VARIABLE = "GPUCONF_SIMCARD_XLA"
FLAGS_VARIABLE = "XLA_FLAGS"
_LIBDEVICE = Path("nvvm") / "libdevice" / "libdevice.10.bc"
# Its location in NVIDIA's wheels for CUDA 12 and 13, below the folder of the package nvidia.
_IN_WHEELS = ("cuda_nvcc", "cu13")
_TOOLKIT_VARIABLES = ("CUDA_HOME", "CUDA_PATH")
_USUAL_TOOLKIT = Path("/usr/local/cuda")
_EXTRA = "pip install 'gpuconf[xla]'"

# Any version that XLA accepts; XLA parses the output, so both print it in NVIDIA's format.
_RELEASE = "Cuda compilation tools, release 12.9, V12.9.86"
_VERSION = f"""\
case " $* " in *" --version "*) echo '{_RELEASE}'; exit 0;; esac
"""
# The last word that is not an option is the input.  A zero byte terminates the text for readers.
_PTXAS = f"""\
#!/bin/sh
# gpuconf: in ptxas's place for a simulated GPU, which runs no kernel.
{_VERSION}\
output= input=
while [ $# -gt 0 ]; do
  case "$1" in
    -o|--output-file) output=$2; shift;;
    -*) ;;
    *) input=$1;;
  esac
  shift
done
{{ cat "$input" && printf '\\000'; }} > "$output"
"""
# Without the zero bytes at their ends, the texts can be read as one.
_NVLINK = f"""\
#!/bin/sh
# gpuconf: in nvlink's place for a simulated GPU, which runs no kernel.
{_VERSION}\
output= inputs=
while [ $# -gt 0 ]; do
  case "$1" in
    -o|--output-file) output=$2; shift;;
    -*) ;;
    *) inputs="$inputs $1";;
  esac
  shift
done
{{ cat $inputs | tr -d '\\000' && printf '\\000'; }} > "$output"
"""
_TOOLS = {"ptxas": _PTXAS, "nvlink": _NVLINK}

# Disables CUDA graphs.  XLA ends the process over an unknown flag.
_GRAPHS_OFF = "--xla_gpu_enable_command_buffer="
_GRAPHS_OFF_IN = {"2.15": "--xla_gpu_graph_level=0"}


class XlaSupport(NamedTuple):
    """What `Card.environment` adds so that XLA compiles, and where libdevice comes from."""

    toolkit: Path
    libdevice: Path
    is_from_wheel: bool
    graphs_off: str = _GRAPHS_OFF

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags for XLA_FLAGS.

        They disable autotuning, whose timings would be meaningless here, and CUDA graphs, which
        use no memory from the allocator.
        """
        return (
            f"--xla_gpu_cuda_data_dir={self.toolkit}",
            "--xla_gpu_autotune_level=0",
            self.graphs_off,
        )

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the changed variables; the user's XLA flags are kept and come first."""
        flags = " ".join(filter(None, (base.get(FLAGS_VARIABLE), *self.flags)))
        # TensorFlow 2.15 prefers a ptxas on PATH to that of the toolkit in its flags.
        path = os.pathsep.join(filter(None, (str(self.toolkit / "bin"), base.get("PATH"))))
        return {VARIABLE: "1", FLAGS_VARIABLE: flags, "PATH": path}


def xla_for_command(
    command: Sequence[str], *, environ: Mapping[str, str] | None = None
) -> XlaSupport:
    """Return what XLA needs in the TensorFlow that ``command`` would import; see `xla_support`."""
    environ = os.environ if environ is None else environ
    return xla_support(find_frameworks(command, environ), environ=environ)


def xla_support(
    found: Frameworks,
    *,
    environ: Mapping[str, str] | None = None,
    usual_toolkit: Path = _USUAL_TOOLKIT,
) -> XlaSupport:
    """Return what XLA needs in a Python with these frameworks; it is built once and cached.

    Raises MissingDependencyError without libdevice.
    """
    environ = os.environ if environ is None else environ
    toolkits = [Path(environ[name]) for name in _TOOLKIT_VARIABLES if environ.get(name)]
    libdevice, is_from_wheel = _find_libdevice(found, [*toolkits, usual_toolkit])
    facts = repr((_TOOLS, str(libdevice))).encode()
    folder = cache_folder(environ) / f"xla-{hashlib.sha256(facts).hexdigest()[:16]}"
    names = [f"bin/{tool}" for tool in _TOOLS]
    toolkit = build_once(folder, [*names, str(_LIBDEVICE)], lambda made: _build(libdevice, made))
    version = "" if found.tensorflow is None else found.tensorflow.version  # also for 2.15.0.post1
    graphs_off = _GRAPHS_OFF_IN.get(".".join(version.split(".")[:2]), _GRAPHS_OFF)
    return XlaSupport(toolkit, libdevice, is_from_wheel, graphs_off)


def _find_libdevice(found: Frameworks, toolkits: Sequence[Path]) -> tuple[Path, bool]:
    """Return the file, and whether it comes from NVIDIA's wheel."""
    wheels = [] if found.nvidia is None else [found.nvidia / part for part in _IN_WHEELS]
    for toolkit in (*wheels, *toolkits):
        if (toolkit / _LIBDEVICE).is_file():
            return toolkit / _LIBDEVICE, toolkit in wheels
    raise MissingDependencyError(
        "XLA cannot compile without libdevice.10.bc, which comes with NVIDIA's nvcc",
        hint=f"{_EXTRA}, in the script's environment",
    )


def _build(libdevice: Path, made: Path) -> None:
    for name, script in _TOOLS.items():
        tool = made / "bin" / name
        tool.parent.mkdir(exist_ok=True)
        tool.write_text(script, encoding="utf-8")
        tool.chmod(0o755)
    link = made / _LIBDEVICE
    link.parent.mkdir(parents=True)
    link.symlink_to(libdevice)
