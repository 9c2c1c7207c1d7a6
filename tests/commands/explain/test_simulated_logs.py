"""Logs that we made ourselves on the simulated GPU: cause, severity, and the facts of each.

`simulated/make_logs.py --list` shows the command that made each of them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuconf.commands.explain import explain
from tests.commands.explain.labelled_facts import fact_at, places_of

FOLDER = Path(__file__).parent / "simulated"
EXPECTED: dict[str, Any] = json.loads((FOLDER / "expected.json").read_text("utf-8"))

Document = dict[str, Any]

PLACES = places_of("simulated")
# What the log does not say, and the program's author knew.
NOT_IN_LOG = {
    "whole-array-fit.log": ["array_shape", "dtype"],  # the message has no shape
    "whole-array-evaluate.log": ["array_shape", "dtype"],
    "whole-array-tf215.log": ["array_shape", "dtype"],
    "oom-session-report.log": ["batch_size"],  # no line of code has it; the shape's first is 2
    "oom-caught.log": ["batch_size"],  # the code of a run that continued is not in its log
    "oom-retried.log": ["batch_size"],  # the code in the traceback has a name for it
    "malloc-async-unsupported.log": ["allocator"],  # it is a detail, not who refused
    "cublas-handle.log": ["status"],  # TensorFlow 2.21 writes the status in words
}
# At the start the region is what was refused; the tensor only came after it.
OF_REGIONS = {
    "tensor_shape", "dtype", "tensor_bytes", "requested_bytes", "op", "device", "allocator",
}  # fmt: skip


def read(name: str) -> Document:
    """The document of a log's diagnosis."""
    return explain((FOLDER / "logs" / name).read_bytes()).as_dict()


def test_cause_and_severity() -> None:
    """What the program was written to fail of."""
    for name, expected in EXPECTED.items():
        found = read(name)
        assert found["cause"] in [expected["cause"], *expected["also_right"]], name
        severities = [expected["severity"], *expected["severities_also_right"]]
        assert found["severity"] in severities, name


def facts_to_read(name: str) -> set[str]:
    """Every fact of a log that stands in it."""
    left_out = OF_REGIONS if name.startswith("startup") else set(NOT_IN_LOG.get(name, ()))
    return set(PLACES) & set(EXPECTED[name]["facts"]) - left_out


def test_facts() -> None:
    """Shapes, bytes, operations and lines of code are those of the program."""
    wrong, count = [], 0
    for name, expected in EXPECTED.items():
        facts = read(name)["facts"]
        for fact in facts_to_read(name):
            count += 1
            found = fact_at(PLACES[fact], facts)
            if found != expected["facts"][fact]:
                wrong.append((name, fact, found))
    assert wrong == []
    assert count >= 129


def test_the_limit() -> None:
    """TensorFlow's limit: exactly from a dump, in MiB from the line that creates the device."""
    limits = {name: each["facts"].get("limit_bytes") for name, each in EXPECTED.items()}
    known = {name: limit for name, limit in limits.items() if limit is not None}
    assert len(known) >= 21
    for name, limit in known.items():
        facts = read(name)["facts"]
        found = (facts["dump"] or {}).get("limit_bytes") or facts["card"]["limit_bytes"]
        assert abs(found - limit) < 1024**2, name


def test_fragmentation_is_shown_by_its_figures() -> None:
    """Free together ≥ asked > the largest free chunk; the other dumps are not so."""
    dumps = {name: read(name)["facts"]["dump"] or {} for name in EXPECTED}
    with_figures = {name: dump for name, dump in dumps.items() if dump.get("requested_bytes")}
    assert len(with_figures) >= 17
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
    for layer in table["layers"]:
        assert layer["size_bytes"] == sum(node["size_bytes"] for node in layer["nodes"])
    nodes = (node for layer in table["layers"] for node in layer["nodes"])
    held = {node["node"]: node["size_bytes"] for node in nodes}
    assert held == EXPECTED["oom-session-report.log"]["facts"]["holders_bytes"]
    assert table["total_bytes"] == 3 * one + table["rest_bytes"]


def test_every_log_has_its_command() -> None:
    """Each can be made again: the list names all of them, with the command."""
    command = [sys.executable, "-m", "tests.commands.explain.simulated.make_logs", "--list"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    logs = {path.name for path in (FOLDER / "logs").iterdir()}
    assert logs == set(EXPECTED)
    assert not [name for name in logs if name.partition(".")[0] not in listing]
    assert "gpuconf.simcard run --context=0B --total" in listing
