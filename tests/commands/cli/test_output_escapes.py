"""What a command prints: ESC sequences in names are shown, never sent to the terminal."""

from __future__ import annotations

import json

import pytest

from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError
from gpuconf.support.reporting.lines import Table, line_of

NAME = "python\x1b]0;owned\x07\udcff"
SHOWN = r"python\x1b]0;owned\x07\udcff"


def test_every_way_to_print_text_escapes_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lines, prose, tables, notes, progress and errors; their own newlines stay."""
    output = Output()
    output.line(f"a\n{NAME}")
    output.prose(NAME)
    output.table(Table(("NAME", "PID"), [(NAME, "1")]))
    output.note(NAME)
    output.progress(NAME)
    output.error(GpuconfError(NAME, hint=NAME))
    written, told = capsys.readouterr()
    assert written.splitlines()[:3] == ["a", SHOWN, SHOWN]
    assert written.splitlines()[4].split() == [SHOWN, "1"]
    assert told.count(SHOWN) == 4
    assert not set("\x1b\x07\udcff") & set(written + told)


def test_the_styles_of_parts_stay_with_escaped_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """An escape takes more columns than its character; what follows keeps its own style."""
    output = Output()
    output.use_color("always")
    output.lines([line_of(("\x1bname", ""), (" bad", "red"))])
    assert capsys.readouterr().out == "\\x1bname\x1b[31m bad\x1b[0m\n"


def test_a_document_keeps_the_text(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON escapes by itself, and gives a program the very characters back."""
    Output(as_json=True).document({"name": NAME})
    written = capsys.readouterr().out
    assert "\x1b" not in written
    assert json.loads(written)["name"] == NAME
