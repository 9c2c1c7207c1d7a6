"""The JSON document: it is what configs/explain.schema.json says, for every log there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from gpuconf.diagnosis import Diagnosis, explain
from gpuconf.messages.causes import CAUSES, SEVERITIES
from gpuconf.messages.facts import details
from gpuconf.messages.facts.dump import Dump
from gpuconf.units import MIB
from tests.cli.commands import schema

SCHEMA = schema("explain")
SIMULATED = Path(__file__).parent / "simulated"
LOGS = sorted([*SIMULATED.glob("logs/*"), *SIMULATED.glob("dumps/*")])


def written(diagnosis: Diagnosis) -> dict[str, Any]:
    """The document as a program reads it."""
    document: dict[str, Any] = json.loads(
        json.dumps({"schema_version": 1, **diagnosis.as_dict()}, allow_nan=False)
    )
    return document


def test_the_schema_knows_every_cause_and_severity() -> None:
    """A cause that is added must be added to it too."""
    diagnosis = SCHEMA["definitions"]["diagnosis"]["properties"]
    assert diagnosis["cause"]["enum"] == list(CAUSES)
    assert diagnosis["severity"]["enum"] == list(SEVERITIES)


@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_every_log_gives_a_valid_document(log: Path) -> None:
    """And every small fact in it is one that the schema knows by name."""
    document = written(explain(log.read_bytes()))
    jsonschema.validate(document, SCHEMA)
    known = SCHEMA["definitions"]["details"]["properties"]
    assert set(document["facts"]["details"]) <= set(known)


def test_every_small_fact_is_in_the_schema() -> None:
    """One that is looked for and not declared would be in no schema."""
    found = {name for name, _ in (*details._LISTS, *details._SINGLES)}
    found.update(details._OF_DISKS)
    assert found == set(SCHEMA["definitions"]["details"]["properties"])


@pytest.mark.parametrize("text", ["", "\n", "KeyError: 3", "\x00\xff", "Epoch 1/2\n"])
def test_nothing_gives_a_valid_document_too(text: str) -> None:
    """An empty log and one without any GPU: unknown is null, not 0."""
    document = written(explain(text))
    jsonschema.validate(document, SCHEMA)
    facts = document["facts"]
    assert (document["cause"], document["severity"]) == ("not-a-gpu-problem", "not-gpu")
    assert [facts[name] for name in ("card", "dump", "allocations", "batch_size")] == [None] * 4
    assert document["proposals"] == []


def test_a_field_that_is_not_described_is_found() -> None:
    """The check above can fail: on a new field, on a text for a number, on another cause."""
    for spoiled in ({"new": 1}, {"line_count": "1"}, {"cause": "gremlins"}):
        document = {**written(explain("KeyError: 3")), **spoiled}
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(document, SCHEMA)


def test_what_is_computed_stands_beside_what_was_read() -> None:
    """Free memory, the largest free chunk and fragmentation; layers with their nodes."""
    dump = Dump(1, requested_bytes=4 * MIB, free_chunks=(3 * MIB, 2 * MIB))
    diagnosis = explain("")
    told = written(diagnosis._replace(facts=diagnosis.facts._replace(dump=dump)))["facts"]["dump"]
    assert (told["free_bytes"], told["largest_free_bytes"]) == (5 * MIB, 3 * MIB)
    assert told["is_fragmented"] is True
    report = explain((SIMULATED / "logs" / "oom-session-report.log").read_bytes())
    table = written(report)["facts"]["allocations"]
    for layer in table["layers"]:
        assert layer["size_bytes"] == sum(node["size_bytes"] for node in layer["nodes"])
    sizes = [layer["size_bytes"] for layer in table["layers"]]
    assert sizes == sorted(sizes, reverse=True)
    assert table["total_bytes"] == sum(sizes) + table["rest_bytes"]
