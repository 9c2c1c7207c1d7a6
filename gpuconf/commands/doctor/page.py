"""`gpuconf doctor --report FILE.html`: one self-contained page to attach to a bug report.

Plain coloured lines in a ``<pre>`` that wraps them at the width of the reader's window.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gpuconf import __version__
from gpuconf.basics.units import sized
from gpuconf.commands.doctor.finding import Finding
from gpuconf.commands.doctor.report import CardReport, MemoryBar, Report
from gpuconf.errors import UsageError
from gpuconf.support.command_line import file_to_write
from gpuconf.support.reporting.html import markup_of, preformatted, stylesheet
from gpuconf.support.reporting.lines import Line, line_of

_SUFFIXES = (".html", ".htm")
_WORDS = {
    "fail": "failed",
    "warn": "warning",
    "crash": "crashed",
    "ok": "fine",
    "skip": "skipped",
}
_STYLES = {"fail": "bold red", "warn": "bold yellow", "crash": "bold magenta", "ok": "green"}
_HEADING, _PALE, _COMMAND = "bold underline", "dim", "cyan"
_BAR_STYLES = ("dim", "yellow", "blue", "pale")
_BAR_LENGTH = 40  # fits on a phone
_BELOW = "  "
_ABOUT = (
    "Taken out of this page: home folders are shown as ~, the host's name as <host>, account "
    "names as <user>. Left in: names and numbers of processes, UUIDs of cards, variables that "
    "steer GPUs and frameworks. Read it once more before you publish it.",
    "The page is one file, loads nothing and runs nothing.",
)


_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>gpuconf doctor: {title}</title>
<style>
body {{ color: #1d2429; background: #fbfaf7; max-width: 62rem; margin: 0 auto; padding: 1rem; }}
@media screen and (prefers-color-scheme: dark) {{
body {{ color: #e7e4dc; background: #14181b; }}
}}
pre {{ font: 15px/1.5 ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; }}
{sheet}.gpuconf pre {{ font-size: 15px; }}
@media (max-width: 34rem) {{ .gpuconf pre {{ font-size: 13px; }} }}
</style>
</head>
<body class="gpuconf">
{body}
</body>
</html>
"""


def page_text(report: Report) -> str:
    """The whole page as HTML; all text from the report is escaped."""
    return _PAGE.format(
        title=markup_of(headline(report)),
        sheet=stylesheet(),
        body=preformatted(_lines(report)),
    )


def _lines(report: Report) -> Iterator[Line]:
    worst = report.problems[0].status if report.problems else "ok"
    counts = report.counts
    yield Line("gpuconf doctor", _PALE)
    yield Line(headline(report), _STYLES[worst])
    yield Line(f"{counts['ok']} fine, {counts['skip']} skipped", _PALE)
    made_at = report.made_at or "at an unknown time"
    yield Line(f"Made {made_at} by gpuconf {__version__} with: {report.command}", _PALE)
    yield Line()
    if report.problems:
        yield from _heading("Problems and fixes")
        for finding in report.problems:
            yield from _problem(finding)
    yield from _heading("Cards")
    for card in report.cards:
        yield from _card(card, report, str(card.index))
    if not report.cards:
        yield Line("No NVIDIA card was found.\n", _PALE)
    if report.profile is not None:
        yield from _heading("Profile")
        because = f", {report.profile.because}" if report.profile.because else ""
        yield line_of((report.profile.name, "bold"), (because, ""))
        if report.profile.source:
            yield Line(report.profile.source, _PALE)
        yield Line()
    for title, pairs in (("Versions", report.versions), ("Environment", report.environment)):
        if pairs:
            yield from _heading(title)
            yield from (line_of((f"{name} ", _PALE), (text, "")) for name, text in pairs)
            yield Line()
    yield from _heading("Every check")
    for finding in report.findings:
        yield _summary(finding)
        if finding.status in ("ok", "skip"):
            yield from _details(finding)
    yield Line()
    yield from (Line(paragraph, _PALE) for paragraph in _ABOUT)


def headline(report: Report) -> str:
    """A short summary of the result."""
    counts = report.counts
    parts = [
        f"{counts[status]} {word if counts[status] == 1 else words}"
        for status, word, words in (
            ("fail", "problem", "problems"),
            ("warn", "warning", "warnings"),
            ("crash", "check crashed", "checks crashed"),
        )
        if counts[status]
    ]
    return ", ".join(parts) or report.all_clear.capitalize()


def _heading(title: str) -> Iterator[Line]:
    yield Line(title, _HEADING)
    yield Line()


def _summary(finding: Finding) -> Line:
    status = (_WORDS[finding.status], _STYLES.get(finding.status, _PALE))
    return line_of(status, (f" {finding.id} ", _PALE), (finding.summary, ""))


def _problem(finding: Finding) -> Iterator[Line]:
    yield _summary(finding)
    yield from _details(finding)
    if finding.fix:
        yield Line(f"{_BELOW}fix:", _PALE)
        yield Line(finding.fix, _COMMAND)  # not indented, so that the line can be pasted
    yield Line()


def _details(finding: Finding) -> Iterator[Line]:
    for line in filter(None, finding.detail):
        yield Line(f"{_BELOW}{line}", _PALE)


def _card(card: CardReport, report: Report, number: str) -> Iterator[Line]:
    yield Line(f"GPU {number}: {card.name or 'name unknown'}", "bold")
    if card.bar is not None:
        yield from _bar(card.bar, report)
    elif not card.instances:
        yield Line("How its memory is used is not known.", _PALE)
    for name, text in _facts(card):
        yield line_of((f"{_BELOW}{name}: ", _PALE), (text, ""))
    if card.arithmetic:
        yield Line(f"{_BELOW}how the limit was computed:", _PALE)
        yield from (Line(f"{_BELOW * 2}{line}") for line in card.arithmetic)
    if card.holders is None and not card.instances:
        yield Line(f"{_BELOW}The driver does not report which processes hold memory.", _PALE)
    for holder in card.holders or ():
        kind = f" ({holder.kind})" if holder.kind else ""
        yield line_of((f"{_BELOW}process: ", _PALE), (f"{holder}{kind}", ""))
    yield Line()
    for place, each in enumerate(card.instances):
        yield from _card(each, report, f"{number}.{place}")


def _bar(bar: MemoryBar, report: Report) -> Iterator[Line]:
    """The card's memory as a bar, and its parts with their sizes."""
    meanings = MemoryBar.meanings(report.profile.name if report.profile else "the profile")
    total = max(bar.total_bytes, 1)
    drawn: list[tuple[str, str]] = []
    legend: list[tuple[str, str]] = []
    end = 0
    for style, words, size in zip(_BAR_STYLES, meanings, bar, strict=True):
        begin, end = end, end + size
        length = round(_BAR_LENGTH * end / total) - round(_BAR_LENGTH * begin / total)
        drawn.append(("█" * length, style))
        legend += [("█ ", style), (f"{words} ", ""), (f"{sized(size)}  ", "bold")]
    yield line_of(*drawn)
    yield line_of(*legend)


def _facts(card: CardReport) -> list[tuple[str, str]]:
    """Facts about a card other than its memory."""
    capability = card.compute_capability
    visible = {True: "yes", False: "no, a program does not see it", None: None}[card.is_visible]
    facts = (
        ("memory", None if card.total_bytes is None else sized(card.total_bytes)),
        ("free now", None if card.free_bytes is None else sized(card.free_bytes)),
        ("limit", None if card.limit_bytes is None else sized(card.limit_bytes)),
        ("visible", visible),
        ("compute capability", None if capability is None else "{}.{}".format(*capability)),
        ("PCI", card.pci_bus_id),
        ("UUID", card.uuid),
        ("remarks", "; ".join(card.remarks) or None),
    )
    return [(name, text) for name, text in facts if text is not None]


def check_page_path(path: str) -> None:
    """Raise before anything runs if a page could not be written to ``path``.

    UsageError for another suffix, a folder that does not exist or is not writable, and a path that
    is not a regular file: exit code 1 would mean that a check failed.
    """
    hint = f"gpuconf doctor --report {Path(path).stem or 'doctor'}.html"
    target = file_to_write("--report", path, _SUFFIXES, "the file name must end in .html", hint)
    folder = target.parent
    if target.exists() and not target.is_file():
        raise UsageError(f"--report {path}: this is not an ordinary file", hint=f"ls -ld {path}")
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"--report {path}: nothing may be written to the folder {folder}",
            hint="gpuconf doctor --report /tmp/doctor.html",
        )


def write_page(report: Report, path: str) -> None:
    """Write ``report``, which must already be redacted, as one HTML page to ``path``.

    The file is replaced as a whole or left unchanged.  Raises the same errors as
    :func:`check_page_path`, and UsageError if the disk is full.
    """
    check_page_path(path)
    # Names of processes may contain bytes that are not text and cannot be encoded.
    content = page_text(report).encode("utf-8", "backslashreplace")
    # Keep a symbolic link, and write to its target.
    target = os.path.realpath(path)
    unfinished = f"{target}.{os.getpid()}.tmp"
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
        if os.path.exists(target):
            shutil.copymode(target, unfinished)
        os.replace(unfinished, target)
    except OSError as error:
        with suppress(OSError):
            os.unlink(unfinished)
        folder = os.path.dirname(target)
        raise UsageError(
            f"--report {path}: it could not be written: {error.strerror}", hint=f"df -h {folder}"
        ) from None
