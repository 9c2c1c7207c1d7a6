"""What is added to a GPU for PyTorch and JAX: stand-ins for a wheel's imports, and preloads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.simcard import Card, WheelSupport, support_for_command
from gpuconf.simcard.compiling import find_compiler
from gpuconf.simcard.imports import read_imports
from gpuconf.simcard.libraries import DEVICE_FILES
from gpuconf.simcard.refusals import LIBRARY, build_refusals
from tests.programs.processes import run_with

pytestmark = pytest.mark.slow  # starts many programs

# Linked as PyTorch is: to versioned symbols of NVIDIA's libraries.
_LIBRARY = """
int cudaMalloc(void **, unsigned long); int cudaSpecial(void); int ncclSend(void);
const char *ncclGetErrorString(int); int cublasGemmEx(void); int cudaOurs(void) { return 7; }
int special(void) { return cudaSpecial(); }
int send(void) { return ncclSend() * (cudaOurs() == 7); }
int multiply(void) { return cublasGemmEx(); }
const char *text(void) { return ncclGetErrorString(1); }
int allocate(void) { void *where; return cudaMalloc(&where, 1 << 20); }
"""
_CALLS = """
import ctypes, sys
wheel = ctypes.CDLL(sys.argv[1])
wheel.text.restype = ctypes.c_char_p
print(wheel.allocate(), wheel.special(), wheel.send(), wheel.multiply(), wheel.send())
print(wheel.text().decode())
"""


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    """The package of a "PyTorch" that imports what `_LIBRARY` does."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib.c").write_text(_LIBRARY)
    compiler = find_compiler(os.environ)
    for soname, names in {
        "libcudart.so.13": "cudaMalloc cudaSpecial",
        "libnccl.so.2": "ncclSend ncclGetErrorString",
        "libcublas.so.13": "cublasGemmEx",
    }.items():
        source, script = tmp_path / f"{soname}.c", tmp_path / f"{soname}.map"
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in names.split()))
        script.write_text(f"{soname} {{ global: *; }};\n")
        flags = ("-shared", "-fPIC", f"-Wl,-soname,{soname}", f"-Wl,--version-script={script}")
        command = (*compiler, *flags, "-o", str(tmp_path / soname), str(source))
        subprocess.run(command, check=True)
    links = [str(tmp_path / name) for name in ("libcudart.so.13", "libnccl.so.2")]
    links.append(str(tmp_path / "libcublas.so.13"))
    out = ("-shared", "-fPIC", "-o", str(tmp_path / "lib" / "libtorch_cuda.so"))
    subprocess.run((*compiler, *out, str(tmp_path / "lib.c"), *links), check=True)
    return tmp_path


def test_the_imports_are_nvidias_alone(wheel: Path) -> None:
    """Names of NVIDIA's that the wheel does not define itself, their versions and libraries."""
    found = read_imports((wheel / "lib").iterdir())
    assert found.names == (
        *("cublasGemmEx", "cudaMalloc", "cudaSpecial"),
        *("ncclGetErrorString", "ncclSend"),
    )
    sonames = ("libcublas.so.13", "libcudart.so.13", "libnccl.so.2")
    assert (found.versions, found.sonames) == (sonames, sonames)


def test_every_import_is_there_and_what_the_card_lacks_refuses_by_name(
    wheel: Path, card: Card
) -> None:
    """The wheel loads; its library's error comes back, its name once, and a text is a text."""
    folder = build_refusals(wheel)
    assert folder is not None
    assert sorted(file.name for file in folder.iterdir()) == [
        *("libcublas.so.13", "libcudart.so.13", LIBRARY, "libnccl.so.2")
    ]
    done = _ask(wheel, card, folder)
    assert done.stdout.splitlines() == ["0 801 1 15 1", "not supported (by a simulated GPU)"], (
        done.stderr
    )
    assert done.stderr.splitlines() == [
        f"gpuconf simulated GPU: {name} is not supported and returns an error"
        for name in ("cudaSpecial", "ncclSend", "cublasGemmEx")
    ]
    skipped = _ask(wheel, card, folder, GPUCONF_SIMCARD_KERNELS="skip")
    assert skipped.stdout.splitlines()[0] == "0 801 1 0 1"
    assert "cublasGemmEx" not in skipped.stderr


def _ask(
    wheel: Path, card: Card, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    """What the functions of the wheel return on the GPU."""
    environ = card.environment(os.environ, wheels=WheelSupport(folder))
    command = [sys.executable, "-c", _CALLS, str(wheel / "lib" / "libtorch_cuda.so")]
    return run_with(command, {**environ, **variables})


def test_a_torch_without_cuda_needs_nothing(tmp_path: Path) -> None:
    """A CPU build has no libtorch_cuda.so."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "libtorch_cpu.so").write_bytes(b"")
    assert build_refusals(tmp_path) is None


def _installed(folder: Path, *packages: str) -> dict[str, str]:
    """An environment whose Python finds these packages, which are empty."""
    for name in packages:
        (folder / name).mkdir(parents=True)
    return {**os.environ, "PYTHONPATH": str(folder)}


def _support(environ: dict[str, str]) -> WheelSupport:
    return support_for_command([sys.executable], environ=environ)


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="there is a real GPU")
def test_jax_alone_is_shown_a_device_file(tmp_path: Path) -> None:
    """Nothing is preloaded without need: not for JAX without plugins, nor for no JAX."""
    assert _support(_installed(tmp_path / "none")) == WheelSupport()
    assert _support(_installed(tmp_path / "cpu", "jax", "nvidia")) == WheelSupport()
    cuda = _installed(tmp_path / "cuda", "jax", "jax_plugins")
    assert _support(cuda) == WheelSupport(None, (DEVICE_FILES,))


def test_nvidias_wheels_do_not_come_first(tmp_path: Path, wheel: Path) -> None:
    """PyTorch and JAX would take them before LD_LIBRARY_PATH, so the stand-ins are preloaded.

    Not for a wheel that has no library, as that of nvcc.
    """
    both = _installed(tmp_path / "both", "jax", "jax_plugins", "nvidia/cublas/lib")
    (tmp_path / "both" / "torch").symlink_to(wheel)
    assert _support(both).preload[:1] != (LIBRARY,)
    (tmp_path / "both" / "nvidia" / "cublas" / "lib" / "libcublas.so.12").touch()
    preload = _support(both).preload
    assert preload[:4] == (LIBRARY, "libcublas.so.13", "libcudart.so.13", "libnccl.so.2")
    assert {"libcudnn.so.9", "libcublas.so.12", "libcupti.so.13"} <= set(preload)
    assert len(set(preload)) == len(preload)


def test_what_is_added_stands_before_what_was_there(card: Card) -> None:
    """The wheel's stand-ins come before the GPU's, and a preload is named once."""
    wheels = WheelSupport(Path("/stand-ins"), ("libgpuconf_a.so", "libgpuconf_b.so"))
    base = {"LD_LIBRARY_PATH": "/mine", "LD_PRELOAD": "libmine.so:libgpuconf_a.so"}
    made = card.environment(base, wheels=wheels)
    assert made["LD_LIBRARY_PATH"] == f"/stand-ins:{card.libraries}:/mine"
    assert made["LD_PRELOAD"] == "libgpuconf_b.so:libmine.so:libgpuconf_a.so"
    assert "LD_PRELOAD" not in card.environment({})
