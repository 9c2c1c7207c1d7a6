"""CUDA 8.0 to 11 for old TensorFlows: loaded as they load it, real memory, and honest refusals."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuconf.basics.units import GIB, MIB
from gpuconf.simcard import Card
from tests.programs.card_clients import STORY, RunClient
from tests.programs.processes import Start, run_with
from tests.simcard import old_cuda
from tests.simcard.old_cuda import CUDNN_VERSIONS, MATH, RELEASES, Release, old_card
from tests.simcard.old_cuda.names import refused_names

PROGRAM = Path(old_cuda.__file__).with_name("program.c")
needs_compiler = pytest.mark.skipif(
    shutil.which("cc") is None, reason="there is no C compiler named cc"
)
# By the headers of the releases: where the struct has total memory, compute capability, L2 bytes,
# threads per multiprocessor and shared memory per multiprocessor, and its size.
PROPERTIES = {
    "8.0": (256, 328, 584, 588, 608, 648),
    "9.0": (256, 328, 584, 588, 608, 672),
    "10.0": (288, 360, 616, 620, 640, 712),
    "10.1": (288, 360, 616, 620, 640, 712),
    "11.0": (288, 360, 616, 624, 640, 728),
}


@pytest.fixture
def card(libraries: Path) -> Iterator[Card]:  # noqa: ARG001  # for its skip
    """The issue's GPU, with the libraries of old CUDA releases."""
    with old_card(STORY) as made:
        yield made


@pytest.fixture(scope="session")
def old_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program linked to libraries that, as NVIDIA's, have their sonames as symbol versions."""
    folder = tmp_path_factory.mktemp("old")
    names = {
        "libcudart.so.9.0": ("cudaMalloc", "cudaMemGetInfo", "cudaRuntimeGetVersion",
                             "__cudaRegisterFunction", "cudaConfigureCall", "cudaSetupArgument",
                             "cudaLaunch"),
        "libcublas.so.9.0": ("cublasSgemm_v2",),
    }  # fmt: skip
    for soname, functions in names.items():
        (folder / "stub.c").write_text("".join(f"int {name}(void);int {name}(void){{return 0;}}\n"
                                               for name in functions))  # fmt: skip
        (folder / "versions").write_text(f"{soname} {{ global: *; }};\n")
        _compile(folder, "-shared", "-fPIC", "-o", soname, f"-Wl,-soname,{soname}",
                 "-Wl,--version-script=versions", "stub.c")  # fmt: skip
    links = [f"-l:{soname}" for soname in names]
    _compile(folder, "-o", "program", str(PROGRAM), "-Wl,-z,now", "-L.", *links)
    return folder / "program"


def _compile(folder: Path, *words: str) -> None:
    subprocess.run(["cc", "-std=c11", *words], cwd=folder, check=True)


@needs_compiler
def test_an_old_program_has_the_cards_memory(card: Card, old_program: Path, start: Start) -> None:
    """Linked by soname, symbol version and BIND_NOW, it starts, allocates and is on the GPU."""
    child = start([str(old_program)], card.environment(os.environ))
    free_mib = (STORY.total_bytes - STORY.used_bytes - GIB) // MIB
    assert child.read_line() == f"9000 2 0 {free_mib} 15"
    assert [(each.pid, each.used_bytes) for each in card.processes()] == [(child.pid, GIB)]
    child.communicate("\n")
    assert "cublasSgemm_v2 is not supported" in child.log
    assert card.processes() == ()


@needs_compiler
@pytest.mark.parametrize("mode", ["", "error"])
def test_an_old_launch_is_never_silent(card: Card, old_program: Path, mode: str) -> None:
    """Configure, argument, launch: the kernel's name is printed, and by default it ends there."""
    environ = {**card.environment(os.environ), "GPUCONF_SIMCARD_KERNELS": mode}
    done = run_with([str(old_program), "launch"], environ)
    assert "my_kernel" in done.stderr
    assert "Stopping here" in done.stderr or mode == "error"
    expected = (0, "launched 0\n") if mode else (-signal.SIGABRT, "")
    assert (done.returncode, done.stdout) == expected


def test_every_soname_is_there(card: Card) -> None:
    """Runtimes, cuDNNs and math libraries are there under their own names."""
    for name in (*(each.soname for each in RELEASES), *CUDNN_VERSIONS, *MATH):
        assert name.encode() + b"\0" in (card.libraries / name).read_bytes()
    for needed in ("libcublas.so.9.0", "libcusolver.so.10.0", "libcurand.so.10"):
        assert needed in MATH


def test_every_name_of_the_list_refuses(card: Card, run_client: RunClient) -> None:
    """All these functions exist, none returns success, and each says its name once."""
    names = refused_names()
    assert len(names) > 300
    code = f"""
library = ctypes.CDLL({MATH[0]!r})
answers = {{name: [library[name](), library[name]()] for name in {names!r}}}
print(all(first == second != 0 for first, second in answers.values()))
print(sorted({{(name[:5], first) for name, (first, _) in answers.items()}}))
cudnn = ctypes.CDLL('libcudnn.so.7')
handle = ctypes.c_void_p(1)
print(cudnn.cudnnGetVersion(), cudnn.cudnnCreate(ctypes.byref(handle)), handle.value)
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == [
        "True",
        "[('cubla', 15), ('cudnn', 9), ('cufft', 16), ('curan', 203), ('cusol', 9)]",
        "7605 9 None",
    ], done.stderr
    for name in names:
        assert done.stderr.count(f" {name} ") == 1


@pytest.mark.parametrize("runtime", PROPERTIES)
def test_the_properties_are_laid_out_as_then(
    card: Card, run_client: RunClient, runtime: str
) -> None:
    """Each release's cudaDeviceProp: fields at their places, and not a byte behind its end."""
    memory, capability, *others, size = PROPERTIES[runtime]
    code = f"""
library = ctypes.CDLL('libcudart.so.{runtime}')
filled = (ctypes.c_ubyte * 1200)(*[0xA5] * 1200)
print(library.cudaGetDeviceProperties(filled, 0))
raw = bytes(filled)
number = lambda place, size=4: int.from_bytes(raw[place:place + size], 'little')
print(number({memory}, 8) // MIB, number({capability}), number({capability} + 4))
print(*map(number, {others}))
print(raw.rstrip(b'\\xa5') == raw[:{size}], len(raw))
print(library.cudaGetDeviceProperties(filled, 1))
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == [
        "0",
        f"{STORY.total_bytes // MIB} 8 6",
        "5242880 1536 102400",
        "True 1200",
        "101",
    ], done.stderr


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: str(release.runtime))
def test_a_pointer_says_where_it_lies(card: Card, run_client: RunClient, release: Release) -> None:
    """The kind of memory (twice in CUDA 10), then the device; other memory is an error."""
    is_twice = release.runtime.startswith("10.")
    code = f"""
library = ctypes.CDLL({release.soname!r})
version, where = ctypes.c_int(), ctypes.c_void_p()
print(library.cudaRuntimeGetVersion(ctypes.byref(version)), version.value)
print(library.cudaMalloc(ctypes.byref(where), ctypes.c_size_t(MIB)))
filled = (ctypes.c_int * 12)(*[-1] * 12)
print(library.cudaPointerGetAttributes(filled, where), filled[:{3 if is_twice else 2}])
print(library.cudaPointerGetAttributes(filled, ctypes.byref(version)))
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == [
        f"0 {release.number}",
        "0",
        f"0 {[2, 2, 0] if is_twice else [2, 0]}",
        "1",
    ], done.stderr
