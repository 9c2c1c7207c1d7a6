"""What ``--json`` prints: schemas made from the code, complete and strict; and documents."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import jsonschema
import pytest

from gpuconf.basics.json_shape import Bytes, FieldRule
from gpuconf.basics.json_values import plain
from gpuconf.basics.units import MIB
from gpuconf.commands.estimate.budget import Budget
from gpuconf.commands.estimate.document import document_of
from gpuconf.commands.estimate.step import (
    BACKWARD,
    FORWARD,
    GPU,
    SIMULATED_CARD,
    TRACED,
    UPDATE,
    WHOLE,
)
from gpuconf.commands.explain import explain
from gpuconf.machine.cards import Gpu
from gpuconf.support.failures.causes import CAUSES, SEVERITIES
from gpuconf.support.failures.facts import details
from tests.commands.cli.commands import ROOT, run_commands, schema
from tests.commands.estimate.estimates import BARE, FITS, HOPELESS, INFERENCE, TOO_LARGE, estimate
from tests.documents.page_tools import docs_module

GENERATE = docs_module("generate")
COMMANDS = list(GENERATE.DOCUMENTS)
SIMULATED = ROOT / "tests" / "commands" / "explain" / "simulated"


def properties(part: Any, place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field that is described anywhere in a schema, with its place."""
    if isinstance(part, dict):
        # Below "then" stands a further rule for a field, and no field.
        for name, field in part.get("properties", {}).items():
            yield f"{place}.{name}", field
        for name, each in part.items():
            if name not in ("if", "then"):
                yield from properties(each, f"{place}.{name}")


def test_schemas_are_as_generated() -> None:
    """After a change of a document: `make generated`; none is written by hand."""
    texts = dict(GENERATE.schemas())
    assert set((ROOT / "configs").glob("*.schema.json")) == set(texts)
    assert [file for file, text in texts.items() if file.read_text("utf-8") != text] == []


@pytest.mark.parametrize("command", COMMANDS)
def test_a_schema_is_complete_and_strict(command: str) -> None:
    """A schema by the rules for schemas; every field is described; no object takes other fields.

    Counts by status need no words.  All that is always written is required.
    """
    made = schema(command)
    jsonschema.Draft7Validator.check_schema(made)
    undescribed = [
        place
        for place, field in properties(made)
        if not field.get("description") and ".counts." not in place
    ]
    assert undescribed == []
    for name, each in made["definitions"].items():
        assert each["additionalProperties"] is False, name
        assert each["required"] in ([], list(each["properties"])), name
        assert bool(each["required"]) != (name == "details"), name


def test_schemas_have_every_choice() -> None:
    """Causes, severities, small facts, tiers and parts: one that is added is in its schema too."""
    of_explain, of_estimate = schema("explain")["definitions"], schema("estimate")["definitions"]
    diagnosis = of_explain["diagnosis"]["properties"]
    assert diagnosis["cause"]["enum"] == list(CAUSES)
    assert diagnosis["severity"]["enum"] == list(SEVERITIES)
    patterns = details.detail_patterns()
    small = {*patterns.lists, *patterns.singles, *details._OF_DISKS}
    assert small == set(of_explain["details"]["properties"])
    tiers = of_estimate["estimate_document"]["properties"]["tier"]["enum"]
    assert tiers == [TRACED, SIMULATED_CARD, GPU]
    for name in ("peak_document", "phase", "moment"):
        assert of_estimate[name]["properties"]["part"]["enum"] == [FORWARD, BACKWARD, UPDATE, WHOLE]


class Piece(NamedTuple):
    """A piece.

    Further words.
    """

    size_bytes: Bytes | None
    """Its size, ``None`` where it is unknown."""
    kind: Literal["a", "b"] | None
    parts: tuple[Piece, ...] = ()
    """Its parts."""
    share: Annotated[float, FieldRule(minimum=0, maximum=1)] = 0.5
    """A share."""


def test_what_is_made_of_a_value_type() -> None:
    """Descriptions, bounds, choices, null, types that hold their own kind; one word is missing."""
    made = GENERATE.schema_of("show", Piece)
    assert made["oneOf"] == [{"$ref": "#/definitions/piece"}]
    piece = made["definitions"]["piece"]
    assert piece["description"] == "A piece"
    assert piece["required"] == ["schema_version", "size_bytes", "kind", "parts", "share"]
    assert piece["properties"].pop("schema_version")["const"] == 1
    assert piece["properties"] == {
        "size_bytes": {
            "description": "Its size, `null` where it is unknown",
            "type": ["integer", "null"],
            "minimum": 0,
        },
        "kind": {"enum": ["a", "b", None]},
        "parts": {
            "description": "Its parts",
            "type": "array",
            "items": {"$ref": "#/definitions/piece"},
        },
        "share": {"description": "A share", "type": "number", "minimum": 0, "maximum": 1},
    }
    assert [place for place, field in properties(made) if not field.get("description")] == [
        ".definitions.piece.kind"
    ]


class PIECE(NamedTuple):
    """Another type whose definition would have the name of the first."""

    first: Piece
    """The first."""


def test_two_types_of_one_name_are_refused() -> None:
    """One of them would be described as the other."""
    with pytest.raises(ValueError, match="two types are named piece"):
        GENERATE.schema_of("show", PIECE)


FILES = {
    "bad.yaml": "extends: nothing\nmemory:\n  keep_free: x\n",
    "trusted.yaml": "env:\n  XLA_FLAGS: --x\n",
    "gpuconf.yaml": "env:\n  XLA_FLAGS: --x\n",
    "lacking.yaml": "extends: ./trusted.yaml\nenv:\n  XLA_FLAGS: --y\n",
}
PLAN = {"profile", "source", "gpus", "environment", "conflicts", "notes"}
CHECK = {"file", "ok", "errors", "refused_if_found"}
# The words of a command, its exit code, and the keys of its document besides schema_version.
FORMS: tuple[tuple[str, int, set[str]], ...] = (
    ("plan", 0, PLAN),
    ("plan bad.yaml", 2, {"error"}),
    ("plan --profile bad.yaml", 2, {"error"}),
    ("profiles list", 0, {"profiles"}),
    ("profiles show virtual-pair", 0, {"name", "source", "profile"}),
    ("profiles show nothing", 2, {"error"}),
    ("profiles check bad.yaml", 2, CHECK),
    ("profiles check ./gpuconf.yaml", 0, CHECK),
    ("trust lacking.yaml", 0, {"trusted"}),
    ("trust --list", 0, {"trusted"}),
    ("trust --revoke lacking.yaml", 0, {"revoked"}),
    ("trust --revoke lacking.yaml", 1, {"error"}),
    ("doctor --list-checks", 0, {"checks"}),
    ("explain nothing.log", 2, {"error"}),
    ("estimate nothing.keras", 2, {"error"}),
    ("rehearse", 2, {"error"}),
)


def test_every_form_of_a_command_is_as_its_schema_says(tmp_path: Path) -> None:
    """The codes and the keys that programs rely on; variables that stay as they are set too."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    environ = {"XDG_STATE_HOME": str(tmp_path / "state"), "TF_FORCE_GPU_ALLOW_GROWTH": "maybe"}
    environ["GPUCONF_PROFILE"] = "shared-desktop"
    commands = [[*words.split(), "--json"] for words, _, _ in FORMS]
    results = run_commands(tmp_path, *commands, environ=environ)
    for done, (words, code, keys) in zip(results, FORMS, strict=True):
        assert done.code == code, words
        assert set(done.document) == {"schema_version", *keys}, words


def written(value: Mapping[str, Any]) -> dict[str, Any]:
    """A document as a program reads it."""
    text = json.dumps({"schema_version": 1, **value}, allow_nan=False)
    document: dict[str, Any] = json.loads(text)
    return document


def documents() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """The command, what it was given, and the document: of every log, and of every estimate."""
    for log in sorted(SIMULATED.glob("logs/*")):
        yield "explain", log.name, written(explain(log.read_bytes()).as_dict())
    for text in ("", "\n", "KeyError: 3", "\x00\xff", "Epoch 1/2\n"):
        yield "explain", repr(text), written(explain(text).as_dict())
    measured: dict[str, Any] = {"tier": SIMULATED_CARD, "peak_bytes": 1000 * MIB}
    for changes in ({}, FITS, TOO_LARGE, HOPELESS, INFERENCE, BARE, measured):
        made = estimate(**changes)
        for budget in (None, Budget("--limit", ("a = b",), Gpu(0)), Budget()):
            value = plain(document_of(made, budget, target="a.keras", plot=None))
            yield "estimate", repr(changes), written(value)


def test_every_document_is_as_its_schema_says() -> None:
    """Whatever the log or the model; those of doctor and ps are validated by their own tests."""
    validators = {name: jsonschema.Draft7Validator(schema(name)) for name in COMMANDS}
    count = 0
    for command, given, document in documents():
        errors = [error.message for error in validators[command].iter_errors(document)]
        assert errors == [], f"{command} of {given}"
        count += 1
    assert count > 50


def test_unknown_is_null() -> None:
    """And not 0: of a log without any GPU."""
    for text in ("", "KeyError: 3"):
        document = written(explain(text).as_dict())
        facts = document["facts"]
        assert (document["cause"], document["severity"]) == ("not-a-gpu-problem", "not-gpu")
        assert [facts[name] for name in ("card", "dump", "allocations", "batch_size")] == [None] * 4
        assert document["proposals"] == []
