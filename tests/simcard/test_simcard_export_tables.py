"""What NVIDIA's own CUDA runtime, built into TensorFlow 1.13 to 2.2, asks of the driver."""

from __future__ import annotations

import signal

import pytest

from gpuconf.simcard import Card
from tests.programs.card_clients import RunClient

RUNTIME, STORAGE = "6bd5fb6c5bf4e74a8987d93912fd9df9", "c693336e1121df11a8c368f355d89593"
# Functions of a table by their place in it; a fill's name as TensorFlow's Eigen has it.
PRELUDE = f"""
def table(id, places):
    found = ctypes.POINTER(ctypes.c_void_p)()
    assert cuda.library.cuGetExportTable(ctypes.byref(found), bytes.fromhex(id)) == 0
    return [ctypes.CFUNCTYPE(ctypes.c_int)(found[place]) for place in places]
primary, load = table({RUNTIME!r}, (2, 6))
keep, forget, recall = table({STORAGE!r}, (0, 1, 2))
FILL = (b"_ZN5Eigen8internal15EigenMetaKernelINS_15TensorEvaluatorIKNS_14TensorAssignOpINS_"
        b"9TensorMapINS_6TensorIfLi1ELi1EiEELi16ENS_11MakePointerEEEKNS_20TensorCwiseNullaryOpI"
        b"NS0_15scalar_const_opIfEEKS8_EEEENS_9GpuDeviceEEEiEEvT_T0_")
def launch(name, *arguments):
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    assert load(ctypes.byref(module), None, None, None) == 0
    cuda.library.cuModuleGetFunction(ctypes.byref(function), module, name)
    places = (ctypes.c_void_p * 2)(*(ctypes.addressof(each) for each in arguments))
    return cuda.library.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, places, None)
"""


def test_a_context_keeps_what_the_runtime_gave_it(card: Card, run_client: RunClient) -> None:
    """Each copy of the runtime has its own, until it takes it back; an unknown table is refused."""
    code = f"""{PRELUDE}
def recalled(manager):
    state = ctypes.c_void_p()
    return recall(ctypes.byref(state), None, ctypes.c_void_p(manager)), state.value
context = ctypes.c_void_p()
print(primary(ctypes.byref(context), 0), cuda.library.cuCtxSetCurrent(context), recalled(7))
for manager, state in ((7, 70), (8, 80)):
    assert keep(context, ctypes.c_void_p(manager), ctypes.c_void_p(state), None) == 0
print(recalled(7), recalled(8), forget(context, ctypes.c_void_p(7)), recalled(7), recalled(8))
print(cuda.library.cuGetExportTable(ctypes.byref(context), bytes(16)), context.value)
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == [
        "0 0 (400, None)",
        "(0, 70) (0, 80) 0 (400, None) (0, 80)",
        "1 None",
    ], done.stderr


@pytest.mark.parametrize("mode", ["", "error"])
def test_a_launch_through_it_is_never_silent(card: Card, run_client: RunClient, mode: str) -> None:
    """Its callers do not check: the program ends, or nothing can be read from the GPU any more."""
    code = f"""{PRELUDE}
cuda.enter(); _, place = cuda.allocate(4)
data = ctypes.create_string_buffer(4)
print(launch(b"my_kernel"), flush=True)
print(cuda.library.cuMemcpyDtoH_v2(data, ctypes.c_uint64(place), ctypes.c_size_t(4)))
"""
    done = run_client(card, code, GPUCONF_SIMCARD_KERNELS=mode)
    assert "my_kernel" in done.stderr
    assert (done.returncode, done.stdout) == ((0, "0\n719\n") if mode else (-signal.SIGABRT, ""))


@pytest.mark.parametrize("kept", [[], [3]], ids=["since 1.14", "before 1.14"])
def test_a_fill_through_it_fills(card: Card, run_client: RunClient, kept: list[int]) -> None:
    """tf.zeros and tf.fill, with the evaluator of tensors as Eigen laid it out then and later."""
    code = f"""{PRELUDE}
import struct
cuda.enter(); _, place = cuda.allocate(16); _, value = cuda.allocate(4)
cuda.write(place, b"x" * 16), cuda.write(value, struct.pack("f", 2.5))
tensor = [place, 3, 9, *{kept}]
words = [*tensor, value, *tensor, 0, 0]
print(launch(FILL, (ctypes.c_uint64 * len(words))(*words), ctypes.c_int(3)))
print(struct.unpack("3f", cuda.read(place, 12)), cuda.read(place + 12, 4))
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == ["0", "(2.5, 2.5, 2.5) b'xxxx'"], done.stderr


def test_pointers_are_described_also_those_of_others(card: Card, run_client: RunClient) -> None:
    """Kind of memory, device and address at once; of memory that is not CUDA's all is 0."""
    code = """
cuda.enter(); _, place = cuda.allocate(16)
for address in (place, id(cuda)):
    kind, device, start = ctypes.c_int(-1), ctypes.c_int(-1), ctypes.c_void_p(1)
    data = (ctypes.c_void_p * 3)(*map(ctypes.addressof, (kind, device, start)))
    asked = (ctypes.c_int * 3)(2, 9, 3)
    status = cuda.library.cuPointerGetAttributes(3, asked, data, ctypes.c_uint64(address))
    print(status, kind.value, device.value, start.value == place, start.value is None)
"""
    done = run_client(card, code)
    assert done.stdout.splitlines() == ["0 2 0 True False", "0 0 0 False True"], done.stderr
