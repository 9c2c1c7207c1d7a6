"""`gpuconf doctor --report FILE.html`: one self-contained page to attach to a bug report.

The verbose report in a ``<pre>``, with versions, variables and each GPU's facts.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuconf import __version__
from gpuconf.commands.doctor.report import CardReport, Report
from gpuconf.commands.doctor.text import TextLayout, lines_of
from gpuconf.errors import UsageError
from gpuconf.support.command_line import file_to_write
from gpuconf.support.reporting.html import markup_of, preformatted, stylesheet
from gpuconf.support.reporting.lines import Line, line_of

_SUFFIXES = (".html", ".htm")
_WIDTH = 110  # of the bars; narrower windows wrap them
_ABOUT = (
    "Removed from this page: home folders are shown as ~, the host's name as <host>, account "
    "names as <user>. Left in: names and numbers of processes, UUIDs of GPUs, variables that "
    "steer GPUs and frameworks. Read it once more before you publish it.",
    "The page is a single file that loads nothing and runs nothing.",
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
    """The full page as HTML; all text from the report is escaped."""
    return _PAGE.format(
        title=markup_of(headline(report)),
        sheet=stylesheet(),
        body=preformatted(_lines(report)),
    )


def _lines(report: Report) -> Iterator[Line]:
    """The verbose report, and what a reader elsewhere cannot know about the machine."""
    yield Line(headline(report), "bold")
    made_at = report.made_at or "at an unknown time"
    yield Line(f"made {made_at} by gpuconf {__version__} with: {report.command}", "dim")
    yield Line()
    yield from lines_of(report, TextLayout(width=_WIDTH, verbose=True))
    for card in report.cards:
        for number, each in enumerate((card, *card.instances)):
            label = f"{card.index}.{number - 1}" if number else f"{card.index}"
            yield from _block(f"GPU {label}  {each.name or '(no name)'}", _facts(each))
    if report.profile is not None:
        yield from _block("profile", [("file", report.profile.source or "")])
    yield from _block("versions", report.versions)
    yield from _block("environment", report.environment)
    yield Line()
    yield from (Line(paragraph, "dim") for paragraph in _ABOUT)


def _block(title: str, pairs: Iterable[tuple[str, str]]) -> Iterator[Line]:
    rows = [line_of((f"  {name}: ", "dim"), (text, "")) for name, text in pairs]
    if rows:
        yield from (Line(), Line(title, "bold"), *rows)


def _facts(card: CardReport) -> Iterator[tuple[str, str]]:
    """Facts about a GPU other than its memory, and how its limit was computed."""
    capability = card.compute_capability
    facts = (
        ("UUID", card.uuid),
        ("PCI", card.pci_bus_id),
        ("compute capability", None if capability is None else "{}.{}".format(*capability)),
        ("visible", "no, a program does not see it" if card.is_visible is False else None),
    )
    yield from ((name, text) for name, text in facts if text is not None)
    yield from (("limit", line) for line in card.arithmetic)


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


def check_page_path(path: str) -> None:
    """Raise before anything runs if a page could not be written to ``path``.

    UsageError for any other suffix, for a folder that does not exist or is not writable, and for a
    path that is not a regular file: exit code 1 would mean that a check failed.
    """
    hint = f"gpuconf doctor --report {Path(path).stem or 'doctor'}.html"
    target = file_to_write("--report", path, _SUFFIXES, "the file name must end in .html", hint)
    folder = Path(os.path.realpath(path)).parent  # a symbolic link stays one
    if target.exists() and not target.is_file():
        raise UsageError(f"--report {path}: this is not a regular file", hint=f"ls -ld {path}")
    if not os.access(folder, os.W_OK):
        raise UsageError(
            f"--report {path}: no permission to write to the folder {folder}",
            hint="gpuconf doctor --report /tmp/doctor.html",
        )


def write_page(report: Report, path: str) -> None:
    """Write ``report``, which must already be redacted, as one HTML page to ``path``.

    The file is either replaced completely or left unchanged.  Raises the same errors as
    :func:`check_page_path`, and UsageError if the disk is full.
    """
    check_page_path(path)
    # Names of processes may contain bytes that are not text and cannot be encoded.
    content = page_text(report).encode("utf-8", "backslashreplace")
    target = os.path.realpath(path)
    unfinished = f"{target}.{os.getpid()}.tmp"
    try:
        Path(unfinished).touch()
        if os.path.exists(target):
            shutil.copymode(target, unfinished)
        Path(unfinished).write_bytes(content)
        os.replace(unfinished, target)
    except OSError as error:
        Path(unfinished).unlink(missing_ok=True)
        folder = os.path.dirname(target)
        raise UsageError(
            f"--report {path}: it could not be written: {error.strerror}",
            hint=f"df -h {shlex.quote(folder)}",
        ) from None
