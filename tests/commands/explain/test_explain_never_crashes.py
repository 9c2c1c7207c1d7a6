"""Whatever is in a log, `explain` gives a diagnosis that can be printed and written as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from gpuconf.commands.explain import Diagnosis, explain
from gpuconf.commands.explain.tables import tables_of
from gpuconf.commands.explain.text import styled_lines
from gpuconf.support.failures.causes import CAUSES, SEVERITIES

LOGS = sorted((Path(__file__).parent / "simulated" / "logs").glob("*.log"))
LINES = [line for log in LOGS for line in log.read_text("utf-8", "replace").splitlines()]
# Lines with figures and names, of which something is made.
TELLING = [line for line in dict.fromkeys(LINES) if re.search(r"\d|Error|error", line)]
HUGE = "1" + "0" * 40
QUIET = settings(suppress_health_check=list(HealthCheck))
KINDS = {"profile", "code", "command", "batch"}


@contextmanager
def naming(*case: str) -> Iterator[None]:
    """Say in which case of a loop an error came."""
    try:
        yield
    except Exception as error:
        raise AssertionError(f"in {case}") from error


def check(diagnosis: Diagnosis) -> None:
    """Hold a diagnosis to all that is promised of any."""
    assert diagnosis.cause in CAUSES
    assert set(diagnosis.also) <= set(CAUSES)
    assert diagnosis.severity in SEVERITIES
    assert {proposal.kind for proposal in diagnosis.proposals} <= KINDS
    document = json.dumps(diagnosis.as_dict(), allow_nan=False)
    assert json.loads(document)["cause"] == diagnosis.cause
    first = str(diagnosis).splitlines()[0]
    assert diagnosis.cause in first
    assert diagnosis.title in first or diagnosis.severity in ("warning-only", "not-gpu")
    assert all(isinstance(line[0], str) for line in styled_lines(diagnosis, verbose=True))
    for table in tables_of(diagnosis):
        assert {len(row) for row in table.rows} <= {len(table.columns)}


@pytest.mark.slow
@QUIET
@given(st.binary(max_size=3000))
@example(b"\xff\xfe")
@example(b"\xfe\xff\x00")
@example(b"\xef\xbb\xbf")
@example(b"\x00" * 999)
@example(b"\x1b[31m\x1b[0m")
@example(b"\x08\r\x08\n\r\n\x1b]0;")
def test_random_bytes_are_read(data: bytes) -> None:
    """Bytes that are not a log at all."""
    check(explain(data))


@pytest.mark.slow
@QUIET
@given(st.text(max_size=2000))
def test_random_text_is_read(text: str) -> None:
    """Characters of any script, half pairs among them."""
    check(explain(text))


@pytest.mark.slow
@QUIET
@given(st.lists(st.sampled_from(LINES), max_size=60))
def test_lines_of_other_logs_in_any_order_are_read(lines: list[str]) -> None:
    """Lines of all the logs, shuffled."""
    check(explain("\n".join(lines)))


def _with_numbers(number: str) -> Callable[[str], str]:
    return lambda line: re.sub(r"\d+", number, line)


MUTATIONS: dict[str, Callable[[str], str]] = {
    "cut in half": lambda line: line[: len(line) // 2],
    "without its beginning": lambda line: line[len(line) // 3 :],
    "doubled": lambda line: line + line,
    "huge numbers": _with_numbers(HUGE),
    "numbers longer than int() takes": _with_numbers("9" * 5000),
    "the largest that 64 bits hold": _with_numbers(str(2**63 - 1)),
    "nothing but zeros": _with_numbers("0"),
    "numbers of other scripts": _with_numbers("٣٤"),  # digits, by \d
    "numbers that are none": _with_numbers("nan"),
    "dots for numbers": _with_numbers("1.2.3."),
    "without brackets": lambda line: re.sub(r"[\[\](){}]", "", line),
    "brackets open": lambda line: re.sub(r"[\])}]", "", line),
    "without blanks": lambda line: line.replace(" ", ""),
    "blanks doubled": lambda line: line.replace(" ", "  "),
    "upper case": str.upper,
    "sizes of other units": lambda line: re.sub(r"[KMGT]i?B", "PiB", line),
    "minus before numbers": lambda line: re.sub(r"(\d+)", r"-\1", line),
}


@pytest.mark.slow
@QUIET
@given(
    st.lists(
        st.tuples(st.sampled_from(TELLING), st.sampled_from(sorted(MUTATIONS))),
        min_size=1,
        max_size=25,
    )
)
def test_mutated_lines_are_read(lines: list[tuple[str, str]]) -> None:
    """Lines with something cut off, doubled, left out or blown up, mixed with each other."""
    check(explain("\n".join(MUTATIONS[how](line) for line, how in lines)))


@pytest.mark.slow
@pytest.mark.nightly  # a minute; single lines are mutated above
def test_mutated_logs_are_read() -> None:
    """Whole logs, of which every line is changed in the same way."""
    for log, how in product(LOGS, MUTATIONS):
        lines = log.read_text("utf-8", "replace").splitlines()
        with naming(log.stem, how):
            check(explain("\n".join(map(MUTATIONS[how], lines))))


@pytest.mark.slow
def test_logs_that_break_off_are_read() -> None:
    """A log whose writer was killed at any moment: nine places in each."""
    for log in LOGS:
        data = log.read_bytes()
        for tenth in range(1, 10):
            with naming(log.stem, f"at {tenth} of 10"):
                check(explain(data[: len(data) * tenth // 10]))


SHAPES = (
    *(
        "[0]",
        "[10,0,5]",
        "[1]",
        "[]",
        f"[{HUGE}]",
        f"[{HUGE},2]",
        f"[{','.join([str(2**62)] * 9)}]",
    ),
    *(f"[{','.join(['99999'] * 30)}]", "[-1,3]", "[,]", "[ , ]", "[1 2 3]"),
)
REFUSALS = (
    "ResourceExhaustedError: OOM when allocating tensor with shape{} and type float",
    "MemoryError: Unable to allocate 1.0 GiB for an array with shape {} and data type float32",
    "W tensorflow/core/framework/op_kernel.cc:1] OOM when allocating tensor with shape{} and "
    "type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
)
FIGURES = (
    *(
        "",
        "Limit: 0\nInUse: 0\nMaxInUse: 0",
        f"Limit: {HUGE}\nInUse: {HUGE}",
        "Limit: 100\nInUse: 5",
    ),
    *("Created device /device:GPU:0 with 0 MB memory", "model.fit(x, y, batch_size=0)"),
    *("batch_size=9999999", "Created device /device:GPU:0 with 1500 MB memory"),
)


@pytest.mark.slow
def test_odd_shapes_break_no_arithmetic() -> None:
    """Empty tensors, tensors larger than anything, and what is not a shape; next to odd figures."""
    for shape, refusal, figures in product(SHAPES, REFUSALS, FIGURES):
        with naming(shape, refusal, figures):
            check(explain(f"{figures}\n{refusal.format(shape)}\n"))


LINES_WITH_FIGURES = (
    f"InUse at 7f00 of size {HUGE} next 1",
    f"Sum Total of in-use chunks: {HUGE}GiB",
    f"total_region_allocated_bytes_: 1 memory_limit_: {HUGE} available bytes: {HUGE}",
    f"CUDA out of memory. Tried to allocate {HUGE} GiB; total capacity of {HUGE} GiB",
    f"| 0 N/A N/A {HUGE} C python {HUGE}MiB |",
    f"  {HUGE}MiB from conv2d/Conv2D",
    f"total memory reported: {HUGE}",
    f"torch.cuda.OutOfMemoryError: Process {HUGE} has {HUGE} GiB memory in use",
    f"Allocation of {HUGE} exceeds 10% of system memory",
    f'File "train.py", line {HUGE}, in <module>',
    "tensorflow 9999.9999.9999 keras==1.²",
    f"Xid (PCI:0000:01:00): {HUGE}, pid=1",
)


def test_huge_figures_break_no_arithmetic() -> None:
    """Figures of more digits than any figure has, in each of the lines that tell one."""
    head = "2024-01-01 00:00:00.0: I tensorflow/core/common_runtime/bfc_allocator.cc:1] "
    error = "OOM when allocating tensor with shape[8,8] and type float"
    stats = "Stats: \nLimit: 100\nInUse: 50\nMaxInUse: 60\nNumAllocs: 1\nMaxAllocSize: 1\n"
    for line in LINES_WITH_FIGURES:
        dump = f"{head}BFCAllocator dump for GPU_0_bfc\n{line}\n{head}{line}\n{stats}{error}\n"
        with naming(line):
            check(explain(dump))
