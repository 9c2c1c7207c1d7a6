"""People's own logs, which are not part of this project: how many are diagnosed correctly."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.explain import explain

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="needs ../shared/corpus, people's logs, which are not shipped"
)


def labels() -> list[dict[str, Any]]:
    """The labels: for each log, the causes and severities that count as right."""
    entries: list[dict[str, Any]] = json.loads((CORPUS / "labels.json").read_text("utf-8"))
    return entries


def test_causes_and_severities(record_property: Callable[[str, object], None]) -> None:
    """95 of 100 are right in cause and severity, and nothing harmless is called a failure."""
    right: dict[str, list[bool]] = defaultdict(list)
    wrong, alarms = [], []
    for entry in labels():
        found = explain((CORPUS / entry["file"]).read_bytes())
        good = found.cause in entry["accepted_causes"]
        good = good and found.severity in entry["accepted_severities"]
        right[entry["accepted_causes"][0]].append(good)
        if not good:
            wrong.append(f"{entry['file']}: {found.cause}, {found.severity}")
        if found.severity == "failure" and "failure" not in entry["accepted_severities"]:
            alarms.append(entry["file"])
    record_property("table", _table(right, wrong))
    total = sum(map(len, right.values()))
    assert total >= 41
    assert not alarms
    assert len(wrong) <= 0.05 * total, wrong


def _table(right: dict[str, list[bool]], wrong: list[str]) -> str:
    rows = [f"{'cause':20} right wrong"]
    for cause, answers in sorted(right.items()):
        rows.append(f"{cause:20} {sum(answers):5} {len(answers) - sum(answers):5}")
    every = [answer for answers in right.values() for answer in answers]
    rows.append(f"{'all':20} {sum(every):5} {len(every) - sum(every):5}")
    return "\n".join([*rows, *wrong])


# How a fact of the labels is told by a diagnosis' document, for the facts that have one form.
READ: dict[str, Callable[[dict[str, Any]], object]] = {
    "tensor_shape": lambda facts: facts["request"]["tensor"]["shape"],
    "tensor_bytes": lambda facts: facts["request"]["tensor"]["size_bytes"],
    "limit_bytes": lambda facts: facts["dump"]["limit_bytes"],
    "in_use_bytes": lambda facts: facts["dump"]["in_use_bytes"],
    "max_in_use_bytes": lambda facts: facts["dump"]["peak_bytes"],
    "requested_bytes": lambda facts: facts["request"]["size_bytes"],
    "gpu": lambda facts: facts["card"]["name"],
    "capability": lambda facts: facts["card"]["compute_capability"],
    "node": lambda facts: facts["request"]["node"],
    "loaded_cudnn": lambda facts: facts["details"]["loaded_cudnn"],
    "compiled_cudnn": lambda facts: facts["details"]["compiled_cudnn"],
    "status": lambda facts: facts["details"]["status"],
    "missing": lambda facts: facts["details"]["missing_libraries"],
    "xid": lambda facts: facts["details"]["xid"],
    "batch_size": lambda facts: facts["batch_size"],
    "minimum": lambda facts: facts["details"]["minimum_capability"],
}


def test_facts(record_property: Callable[[str, object], None]) -> None:
    """Nine in ten of the facts that people read in these logs are read from them."""
    missed, count = [], 0
    for entry in labels():
        facts = explain((CORPUS / entry["file"]).read_bytes()).as_dict()["facts"]
        for name in READ.keys() & entry["key_facts"].keys():
            count += 1
            wanted = entry["key_facts"][name]
            try:
                found = READ[name](facts)
            except (KeyError, TypeError):
                found = None
            if found != wanted:
                missed.append(f"{entry['file']}: {name}: {found!r} instead of {wanted!r}")
    record_property("table", "\n".join([f"facts read: {count - len(missed)} of {count}", *missed]))
    assert count >= 35
    assert len(missed) <= 0.1 * count, missed
