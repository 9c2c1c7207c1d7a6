"""Logs that we made ourselves on the simulated card: cause, severity, and the facts of each.

`simulated/make_logs.py --list` shows the command that made each of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconf.diagnosis import explain

FOLDER = Path(__file__).parent / "simulated"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text("utf-8"))

Document = dict[str, Any]

# Where each fact of expected.json stands in a diagnosis' document.
READ: dict[str, Callable[[Document], object]] = {
    "tensor_shape": lambda facts: facts["request"]["tensor"]["shape"],
    "dtype": lambda facts: facts["request"]["tensor"]["dtype"],
    "tensor_bytes": lambda facts: facts["request"]["tensor"]["size_bytes"],
    "array_shape": lambda facts: facts["request"]["tensor"]["shape"],
    "array_bytes": lambda facts: facts["request"]["size_bytes"],
    "requested_bytes": lambda facts: facts["request"]["size_bytes"],
    "first_attempt_bytes": lambda facts: facts["request"]["size_bytes"],
    "device": lambda facts: facts["request"]["device"],
    "allocator": lambda facts: facts["request"]["allocator"],
    "op": lambda facts: facts["request"]["node"],
    "user_line": lambda facts: facts["user_code"] and facts["user_code"]["line"],
    "cell_line": lambda facts: facts["user_code"]["line"],
    "batch_size": lambda facts: facts["batch_size"],
    "largest_free_chunk_bytes": lambda facts: facts["dump"]["largest_free_bytes"],
    "free_bytes": lambda facts: facts["dump"]["free_bytes"],
    "holders_bytes": lambda facts: {
        node["node"]: node["size_bytes"]
        for layer in facts["allocations"]["layers"]
        for node in layer["nodes"]
    },
    "status": lambda facts: facts["details"]["status"],
    "full_folder": lambda facts: facts["details"]["full_folder"],
    "unwritten": lambda facts: facts["details"]["unwritten"],
    "card_free_bytes": lambda facts: facts["card"]["free_bytes"],
}
# What the log does not say, and the program's author knew; with the reason.
NOT_IN_LOG = {
    ("whole-array-fit.log", "array_shape"): "the message has no shape",
    ("whole-array-fit.log", "dtype"): "likewise",
    ("whole-array-evaluate.log", "array_shape"): "likewise",
    ("whole-array-evaluate.log", "dtype"): "likewise",
    ("whole-array-tf215.log", "array_shape"): "likewise",
    ("whole-array-tf215.log", "dtype"): "likewise",
    ("oom-session-report.log", "batch_size"): "no line of code has it; the shape's first is 2",
    ("oom-caught.log", "batch_size"): "the code of a run that went on is not in its log",
    ("oom-retried.log", "batch_size"): "the code in the traceback has a name for it",
    ("malloc-async-unsupported.log", "allocator"): "it is a detail, not who refused",
    ("cublas-handle.log", "status"): "TensorFlow 2.21 writes the status in words",
}
# At the start the region is what was refused; the tensor only came after it.
OF_REGIONS = {
    "tensor_shape", "dtype", "tensor_bytes", "requested_bytes", "op", "device", "allocator",
}  # fmt: skip


def read(name: str) -> Document:
    """The document of a log's diagnosis."""
    return explain((FOLDER / "logs" / name).read_bytes()).as_dict()


@pytest.mark.parametrize("name", EXPECTED)
def test_cause_and_severity(name: str) -> None:
    """What the program was written to fail of."""
    expected, found = EXPECTED[name], read(name)
    assert found["cause"] in [expected["cause"], *expected["also_right"]]
    assert found["severity"] in [expected["severity"], *expected["severities_also_right"]]


def facts_to_read() -> list[tuple[str, str]]:
    """Every fact of every log that stands in it."""
    return [
        (name, fact)
        for name, expected in EXPECTED.items()
        for fact in expected["facts"].keys() & READ.keys()
        if (name, fact) not in NOT_IN_LOG
        and not (name.startswith("startup") and fact in OF_REGIONS)
    ]


@pytest.mark.parametrize(("name", "fact"), sorted(facts_to_read()))
def test_facts(name: str, fact: str) -> None:
    """Shapes, bytes, operations and lines of code are those of the program."""
    assert READ[fact](read(name)["facts"]) == EXPECTED[name]["facts"][fact]


def test_the_limit() -> None:
    """TensorFlow's limit: exactly from a dump, in MiB from the line that creates the device."""
    limits = {name: each["facts"].get("limit_bytes") for name, each in EXPECTED.items()}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    assert len(known) >= 22
    for name, limit in known.items():
        facts = read(name)["facts"]
        found = (facts["dump"] or {}).get("limit_bytes") or facts["card"]["limit_bytes"]
        assert abs(found - limit) < 1024**2, name


def test_fragmentation_is_shown_by_its_figures() -> None:
    """Free together ≥ asked > the largest free chunk; the other dumps are not so."""
    dumps = {name: read(name)["facts"]["dump"] or {} for name in EXPECTED}
    with_figures = {name: dump for name, dump in dumps.items() if dump.get("requested_bytes")}
    assert len(with_figures) >= 18
    for name, dump in with_figures.items():
        fragmented = dump["free_bytes"] >= dump["requested_bytes"] > dump["largest_free_bytes"]
        assert dump["is_fragmented"] == fragmented == (name == "fragmentation.log"), name


def test_the_layers_of_the_report() -> None:
    """The table of report_tensor_allocations_upon_oom, by layer: each holds what 1280×720×64 is."""
    table = read("oom-session-report.log")["facts"]["allocations"]
    one = 2 * 720 * 1280 * 64 * 4
    assert [(layer["name"], layer["size_bytes"]) for layer in table["layers"]] == [
        ("conv1", 2 * one),
        ("to_planes", one),
    ]


def test_every_log_has_its_command() -> None:
    """Each can be made anew: the list names all of them, with the command."""
    command = [sys.executable, "-m", "tests.diagnosis.simulated.make_logs", "--list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    logs = {path.name for path in (FOLDER / "logs").iterdir()}
    assert logs == set(EXPECTED)
    assert not [name for name in logs if name.partition(".")[0] not in listing]
    assert "gpuconf.simcard run --context=0B --total" in listing
