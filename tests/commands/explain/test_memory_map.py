"""Files of TF_BFC_MEMORY_DUMP: TensorFlow's own description, a real file, and what is none."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.basics.units import MIB
from gpuconf.commands.explain import explain
from gpuconf.commands.explain.memory_map import FIELDS, looks_like_memory_map, read_memory_map
from gpuconf.errors import GpuconfError
from gpuconf.support.failures.facts.dump import Chunks, Dump
from tests.programs.processes import run_python

SIMULATED = Path(__file__).parent / "simulated"
FILE = SIMULATED / "dumps" / "oom-memory-dump"
REAL = FILE.read_bytes()

# Where TensorFlow 2.15 and later have it; loaded by its path, it imports no TensorFlow.
PLACES = ("compiler/xla/tsl/protobuf", "tsl/protobuf", "core/protobuf")
THEIRS = """
import importlib.util, json, sys

spec = importlib.util.spec_from_file_location("bfc_memory_map_pb2", {path!r})
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
assert "tensorflow" not in sys.modules
numbers = {{
    name: {{field.number: field.name for field in message.fields}}
    for name, message in theirs.DESCRIPTOR.message_types_by_name.items()
}}
dump = theirs.MemoryDump.FromString(open({file!r}, "rb").read())
free = [chunk.size for chunk in dump.chunk if not chunk.in_use]
used = sorted(chunk.size for chunk in dump.chunk if chunk.in_use)
sums = [dump.stats.bytes_in_use, dump.stats.peak_bytes_in_use]
print(json.dumps([numbers, dump.allocator_name, free, used, sums]))
"""


def tensorflows_own() -> Path:
    """The module that TensorFlow's wheel has for these messages."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("tensorflow is not installed")
    folder = Path(spec.origin).parent
    files = [folder / place / "bfc_memory_map_pb2.py" for place in PLACES]
    return next(file for file in files if file.is_file())


def test_what_is_read_is_what_tensorflow_writes(tmp_path: Path) -> None:
    """Field numbers and every figure of a real file, against the module in the installed wheel."""
    program = THEIRS.format(path=str(tensorflows_own()), file=str(FILE))
    numbers, allocator, free, used, sums = json.loads(run_python(program, tmp_path))
    for message, fields in FIELDS.items():
        assert fields == {n: numbers[message].get(str(n)) for n in fields}
    dump = read_memory_map(REAL)
    assert (dump.allocator, list(dump.free_chunks or ())) == (allocator, free)
    assert [each.size_bytes for each in dump.in_use for _ in range(each.number)] == used
    assert [dump.in_use_bytes, dump.peak_bytes] == sums


def test_a_real_file_is_read() -> None:
    """The allocator, what is in use, what is free, and no name where no chunk has one."""
    dump = read_memory_map(REAL)
    assert dump.allocator == "GPU_0_bfc"
    assert dump.limit_bytes == 512 * MIB
    assert Chunks(256 * MIB, 1) in dump.in_use
    assert sum(chunks.total_bytes for chunks in dump.in_use) == dump.in_use_bytes
    assert dump.free_bytes == 512 * MIB - (dump.in_use_bytes or 0)
    assert "(no name)" not in dict(dump.by_operation) or len(dump.by_operation) > 1


def test_it_says_what_the_log_of_the_same_run_says() -> None:
    """Two records of one moment, in sums that both have; the log has rounded them."""
    log = explain((SIMULATED / "logs" / "oom-memory-dump.log").read_bytes()).facts.dump
    assert log is not None
    assert log.free_chunks is not None
    dump = read_memory_map(REAL)
    assert dump.allocator == log.allocator
    assert sorted(dump.free_chunks or ()) == sorted(log.free_chunks)
    assert sorted(dump.in_use) == sorted(log.in_use)


def test_the_file_is_a_diagnosis() -> None:
    """A tensor found no room; the dump is in it."""
    diagnosis = explain(REAL)
    assert (diagnosis.cause, diagnosis.severity) == ("oom-device-tensor", "failure")
    assert diagnosis.facts.dump == read_memory_map(REAL)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "\n\tTraceback (most recent call last):\n",  # the bytes of a nine-letter name
        "\n\tException in thread Thread-1:\n",
        "\n0123456789012345678901234567890123456789012345678901234567890\n",
        "2024-01-01 00:00:00.000000: I tensorflow/core\n",
    ],
)
def test_no_log_is_taken_for_one(text: str) -> None:
    """Also where it begins as a protobuf file does."""
    assert not looks_like_memory_map(text.encode())
    assert explain(text).cause == "not-a-gpu-problem"


def test_what_is_cut_off_is_refused() -> None:
    """In the middle of a field: one error with what to do, which exits 1."""
    with pytest.raises(GpuconfError, match="TF_BFC_MEMORY_DUMP") as caught:
        read_memory_map(REAL[:-1])
    assert caught.value.exit_code == 1
    assert "TF_BFC_MEMORY_DUMP=" in str(caught.value.hint)


def test_sizes_below_zero_are_refused() -> None:
    """A chunk of -1 bytes is valid protobuf, and no memory."""
    chunk = bytes([0x10, *[0xFF] * 9, 0x01])
    file = bytes([0x0A, 9, *b"GPU_0_bfc", 0x1A, len(chunk), *chunk])
    assert looks_like_memory_map(file)
    with pytest.raises(GpuconfError, match="below zero"):
        explain(file)


def read_or_refused(data: bytes) -> Dump | None:
    """The dump in ``data``; None where there is said to be none."""
    try:
        return read_memory_map(data)
    except GpuconfError:
        return None


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_random_bytes_do_not_crash(data: bytes) -> None:
    """They are read or refused, alone and behind what a real file begins with."""
    read_or_refused(data)
    read_or_refused(REAL[:11] + data)


@settings(deadline=None)
@given(st.integers(0, len(REAL) - 1), st.integers(0, 255))
def test_a_changed_byte_does_not_crash(place: int, byte: int) -> None:
    """Whatever it is; and the diagnosis of what can be read can be told."""
    data = REAL[:place] + bytes([byte]) + REAL[place + 1 :]
    if looks_like_memory_map(data) and read_or_refused(data) is not None:
        assert str(explain(data)).startswith("no room on the card for a tensor")


def test_no_protobuf_is_needed(tmp_path: Path) -> None:
    """A dump is read where neither TensorFlow nor protobuf is installed."""
    out = run_python(
        f"""
        import sys
        sys.modules["google"] = None  # what `import google.protobuf` finds where it is missing
        from gpuconf.commands.cli.main import main
        main(["explain", {str(FILE)!r}])
        """,
        tmp_path,
    )
    assert "no room on the card for a tensor" in out
