"""Findings as SARIF 2.1.0, the results format of code hosts and editors.  Pure.

Only findings in scripts are results: hosts reject results without a file.  Problems of the machine
are notifications of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from gpuconf import __version__
from gpuconf.commands.doctor.annotations import message_of, path_from
from gpuconf.commands.doctor.finding import Finding, SourcePlace
from gpuconf.commands.doctor.report import Report

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {"fail": "error", "crash": "error", "warn": "warning"}
_ROOT = "%SRCROOT%"

Json = dict[str, Any]


def sarif_of(report: Report, known: Mapping[str, str], *, folder: str, exit_code: int) -> Json:
    """The whole log; ``known`` has the checks by id, paths are relative to ``folder``."""
    placed = [each for each in report.problems if each.places]
    rules = sorted({each.id for each in placed})
    driver = {
        "name": "gpuconf doctor",
        "semanticVersion": __version__,
        "rules": [{"id": each, "shortDescription": {"text": known[each]}} for each in rules],
    }
    others = [_notification(each) for each in report.problems if not each.places]
    invocation = {
        "executionSuccessful": not report.counts["crash"],
        "exitCode": exit_code,
        "commandLine": report.command,
        "toolExecutionNotifications": others,
    }
    run = {
        "tool": {"driver": driver},
        "invocations": [invocation],
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, rules, folder) for each in placed],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _result(finding: Finding, rules: list[str], folder: str) -> Json:
    first, *more = (_location(each, folder) for each in finding.places)
    # No duplicates, as the schema requires: all cells of a notebook have the same location.
    others = [each for number, each in enumerate(more) if each not in (first, *more[:number])]
    result = {
        "ruleId": finding.id,
        "ruleIndex": rules.index(finding.id),
        "level": _LEVELS[finding.status],
        "message": {"text": message_of(finding)},
        "locations": [first],
    }
    return {**result, "relatedLocations": others} if others else result


def _notification(finding: Finding) -> Json:
    return {
        "descriptor": {"id": finding.id},
        "level": _LEVELS[finding.status],
        "message": {"text": message_of(finding)},
    }


def _location(place: SourcePlace, folder: str) -> Json:
    path = path_from(folder, place.file)
    artifact = {"uri": f"file://{quote(path)}"}
    if not path.startswith("/"):
        artifact = {"uri": quote(path), "uriBaseId": _ROOT}
    physical: Json = {"artifactLocation": artifact}
    if place.cell is None:  # line numbers in a cell are not those of the file
        physical["region"] = {"startLine": place.line, "endLine": place.last_line}
    return {"physicalLocation": physical}
