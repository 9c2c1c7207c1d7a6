"""The stand-in CUDA runtimes, through ctypes: CUDA 12's and CUDA 13's over one driver."""

from __future__ import annotations

import pytest

from gpuconf.basics.units import MIB
from gpuconf.simcard import Card, simulated_card
from tests.programs.card_clients import STORY, RunClient

_INSUFFICIENT_DRIVER, _INVALID_DEVICE = 35, 101
_PROPERTIES = {12: "cudaGetDeviceProperties_v2", 13: "cudaGetDeviceProperties"}
# Where CUDA 12.5's and CUDA 13.2's driver_types.h have multiProcessorCount and
# sharedMemPerMultiprocessor; total, major and minor lie in the same place.
_PLACES = {12: (388, 640), 13: (384, 624)}

_LOAD = """
import struct
runtime = ctypes.CDLL("libcudart.so.{cuda}")
def count():
    found = ctypes.c_int(-1)
    return runtime.cudaGetDeviceCount(ctypes.byref(found)), found.value
"""


def _lines(card: Card, run_client: RunClient, cuda: int, code: str) -> list[str]:
    done = run_client(card, _LOAD.format(cuda=cuda) + code)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("cuda", [12, 13])
def test_the_properties_lie_where_each_runtime_has_them(
    card: Card, run_client: RunClient, cuda: int
) -> None:
    """And nothing is written behind the structure, which is 1032 bytes or 1008."""
    processors, shared = _PLACES[cuda]
    size = {12: 1032, 13: 1008}[cuda]
    code = f"""
filled = ctypes.create_string_buffer(b"\\x7f" * {size + 8}, {size + 8})
print(runtime.{_PROPERTIES[cuda]}(filled, 0), runtime.{_PROPERTIES[cuda]}(filled, 7))
integer = lambda place: struct.unpack_from("i", filled, place)[0]
print(filled.value.decode(), struct.unpack_from("N", filled, 288)[0] // MIB)
print(integer(360), integer(364), integer({processors}), integer({shared}))
print(set(filled.raw[{size}:]))
"""
    assert _lines(card, run_client, cuda, code) == [
        f"0 {_INVALID_DEVICE}",
        f"{STORY.name} {STORY.total_bytes // MIB}",
        "8 6 68 102400",
        "{127}",
    ]


@pytest.mark.parametrize(
    ("driver", "cuda", "answer"),
    [
        ((12, 8), 12, "(0, 1)"),
        ((12, 8), 13, f"({_INSUFFICIENT_DRIVER}, 0)"),
        ((13, 0), 13, "(0, 1)"),
        ((11, 8), 12, f"({_INSUFFICIENT_DRIVER}, 0)"),
    ],
)
def test_a_runtime_newer_than_the_driver_finds_no_gpu(
    run_client: RunClient, driver: tuple[int, int], cuda: int, answer: str
) -> None:
    """Within a major version any runtime runs, as with real drivers."""
    with simulated_card(STORY._replace(cuda_version=driver)) as card:
        assert _lines(card, run_client, cuda, "print(count())") == [answer]
