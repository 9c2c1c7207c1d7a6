"""Findings as GitHub workflow commands, which become annotations on the job.  Pure.

The format is the one that the Actions toolkit uses: ``::warning file=a.py,line=3,title=t::text``,
with delimiters percent-encoded.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from gpuconf.commands.doctor.finding import Finding, SourcePlace
from gpuconf.commands.doctor.report import Report

_LINE = re.compile(r"^\d+(?::\d+)?: ")
_COMMANDS = {"fail": "error", "crash": "error", "warn": "warning"}


def annotations_of(report: Report, *, folder: str) -> Iterator[str]:
    """A line for each problem, worst first; paths are relative to ``folder``, the checkout."""
    for finding in report.problems:
        place = finding.places[0] if finding.places else None
        properties = {**_where(place, folder), "title": finding.id}
        given = ",".join(f"{name}={_in_property(value)}" for name, value in properties.items())
        yield f"::{_COMMANDS[finding.status]} {given}::{_in_text(message_of(finding))}"


def message_of(finding: Finding) -> str:
    """A finding's text, line by line, without its location and source line."""
    summary = finding.summary
    if finding.places:
        summary = _LINE.sub("", summary.removeprefix(f"{finding.places[0].file}:")).strip()
    lines = [summary, *(each for each in finding.detail if not each.startswith("    "))]
    if finding.fix:
        lines += ["fix:", *finding.fix.splitlines()]
    return "\n".join(lines)


def _where(place: SourcePlace | None, folder: str) -> dict[str, str]:
    if place is None:
        return {}
    file = {"file": path_from(folder, place.file)}
    if place.cell is not None:  # line numbers in a cell are not those of the file
        return file
    return {**file, "line": str(place.line), "endLine": str(place.last_line)}


def path_from(folder: str, path: str) -> str:
    """``path`` relative to ``folder``; unchanged if it is not inside ``folder``."""
    whole = os.path.abspath(path)
    inner = os.path.relpath(whole, folder)
    return whole if inner.split(os.sep)[0] == os.pardir else inner


def _in_text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _in_property(text: str) -> str:
    return _in_text(text).replace(":", "%3A").replace(",", "%2C")
