"""People's own logs, which are not part of this project: how many are diagnosed correctly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuconf.commands.explain import explain
from tests.commands.explain.labelled_facts import fact_at, places_of

CORPUS = Path(__file__).resolve().parents[4] / "shared" / "corpus"
pytestmark = pytest.mark.skipif(
    not CORPUS.is_dir(), reason="needs ../shared/corpus, people's logs, which are not shipped"
)


def labels() -> list[dict[str, Any]]:
    """The labels: for each log, the causes and severities that count as right."""
    entries: list[dict[str, Any]] = json.loads((CORPUS / "labels.json").read_text("utf-8"))
    return entries


def test_causes_and_severities() -> None:
    """95 of 100 are right in cause and severity, and nothing harmless is called a failure."""
    wrong, alarms = [], []
    for entry in labels():
        found = explain((CORPUS / entry["file"]).read_bytes())
        good = found.cause in entry["accepted_causes"]
        good = good and found.severity in entry["accepted_severities"]
        if not good:
            wrong.append(f"{entry['file']}: {found.cause}, {found.severity}")
        if found.severity == "failure" and "failure" not in entry["accepted_severities"]:
            alarms.append(entry["file"])
    assert len(labels()) >= 41
    assert not alarms
    assert len(wrong) <= 0.05 * len(labels()), wrong


def test_facts() -> None:
    """Nine in ten of the facts that people read in these logs are read from them."""
    places, missed, count = places_of("corpus"), [], 0
    for entry in labels():
        facts = explain((CORPUS / entry["file"]).read_bytes()).as_dict()["facts"]
        for name in places.keys() & entry["key_facts"].keys():
            count += 1
            wanted, found = entry["key_facts"][name], fact_at(places[name], facts)
            if found != wanted:
                missed.append(f"{entry['file']}: {name}: {found!r} instead of {wanted!r}")
    assert count >= 35
    assert len(missed) <= 0.1 * count, missed
