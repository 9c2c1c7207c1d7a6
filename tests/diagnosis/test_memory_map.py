"""Files of TF_BFC_MEMORY_DUMP: TensorFlow's own description, a real file, and what is none."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuconf.diagnosis import explain
from gpuconf.diagnosis.memory_map import looks_like_memory_map, read_memory_map
from gpuconf.errors import GpuconfError
from gpuconf.messages.facts.dump import Chunks, Dump
from gpuconf.units import MIB
from tests.processes import run_python

SIMULATED = Path(__file__).parent / "simulated"
FILE = SIMULATED / "dumps" / "oom-memory-dump"
REAL = FILE.read_bytes()

# Where TensorFlow 2.15 and later have it; loaded by its path, it imports no TensorFlow.
PLACES = ("compiler/xla/tsl/protobuf", "tsl/protobuf", "core/protobuf")
DESCRIBE = """
import importlib.util, json, sys
from gpuconf.diagnosis.memory_map import _message_class

def is_repeated(field):  # newer protobuf warns of the label, older has no is_repeated
    known = hasattr(field, "is_repeated")
    return field.is_repeated if known else field.label == field.LABEL_REPEATED

def fields_of(message):
    return {{
        field.name: [field.number, field.type, is_repeated(field),
            field.message_type.name if field.message_type else ""]
        for field in message.fields
    }}

def messages_of(file):
    return {{name: fields_of(message) for name, message in file.message_types_by_name.items()}}

spec = importlib.util.spec_from_file_location("bfc_memory_map_pb2", {path!r})
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)
assert "tensorflow" not in sys.modules
ours = _message_class().DESCRIPTOR.file
print(json.dumps([messages_of(ours), messages_of(theirs.DESCRIPTOR)]))
"""


def tensorflows_own() -> Path:
    """The module that TensorFlow's wheel has for these messages."""
    spec = importlib.util.find_spec("tensorflow")
    if spec is None or spec.origin is None:
        pytest.skip("tensorflow is not installed")
    folder = Path(spec.origin).parent
    files = [folder / place / "bfc_memory_map_pb2.py" for place in PLACES]
    return next(file for file in files if file.is_file())


def test_our_description_is_tensorflows(tmp_path: Path) -> None:
    """Every message, field, number and type, as in the wheel that is installed."""
    out = run_python(DESCRIBE.format(path=str(tensorflows_own())), tmp_path)
    ours, theirs = json.loads(out)
    assert ours == theirs
    assert ours["MemChunk"]["in_use"] == [8, 8, False, ""]


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


def test_without_protobuf_the_command_is_told(tmp_path: Path) -> None:
    """MissingDependencyError: exit 1, one error with the pip command, no traceback."""
    out = run_python(
        f"""
        import contextlib, io, json, sys
        sys.modules["google"] = None  # what `import google.protobuf` finds where it is missing
        from gpuconf.cli.main import main
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            code = main(["explain", {str(FILE)!r}])
        print(json.dumps([code, err.getvalue()]))
        """,
        tmp_path,
    )
    code, err = json.loads(out)
    assert code == 1
    assert "protobuf, which is not installed" in err
    assert "hint: pip install 'gpuconf[dump]'" in err
    assert len(err.splitlines()) == 2


def test_logs_need_no_protobuf(tmp_path: Path) -> None:
    """Nothing of it is imported for a log, which may begin with any bytes."""
    out = run_python(
        """
        import sys
        from gpuconf.diagnosis import explain
        explain("KeyError: 3")
        print("google.protobuf" in sys.modules)
        """,
        tmp_path,
    )
    assert out == "False\n"
