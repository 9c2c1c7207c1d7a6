"""``gpuconf explain`` as its users call it: what it reads, refuses, prints and draws."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuconf.commands.explain import explain
from tests.commands.cli.commands import ROOT, Done, gpuconf, run_commands
from tests.programs.processes import clean_environment, run
from tests.programs.terminals import OnTerminal

pytestmark = pytest.mark.slow  # waits for programs

SIMULATED = ROOT / "tests" / "commands" / "explain" / "simulated"
LOGS = sorted((SIMULATED / "logs").iterdir())
OOM, HEALTHY = SIMULATED / "logs" / "oom-eager.log", SIMULATED / "logs" / "healthy.log"
NOTEBOOK = SIMULATED / "logs" / "notebook.ipynb"
HEADLINE = "no room on the GPU for a tensor (oom-device-tensor): the run failed"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files to explain, whole and broken."""
    made = tmp_path_factory.mktemp("explain")
    whole = gzip.compress(OOM.read_bytes(), mtime=0)
    files = {
        "a.log": OOM.read_bytes(),
        "a.log.gz": whole,
        "packed.log": whole,  # by what is in it, whatever it is called
        "notebook.log": NOTEBOOK.read_bytes(),
        "empty.log": b"",
    }
    for name, data in files.items():
        (made / name).write_bytes(data)
    return made


def piped(
    data: bytes, *words: str, home: Path, **environ: str
) -> subprocess.CompletedProcess[bytes]:
    """The command with ``data`` on its standard input, a pipe."""
    return subprocess.run(
        gpuconf("explain", *words),
        input=data,
        cwd=ROOT,
        env=clean_environment(home, environ),
        capture_output=True,
        check=False,
        timeout=60,
    )


def test_what_it_reads(folder: Path) -> None:
    """A log, gzip, a notebook by its name or by what is in it; lines are where they are."""
    names = ["a.log", "a.log.gz", "packed.log", "notebook.log", str(NOTEBOOK)]
    results = run_commands(folder, *(["explain", name] for name in names))
    for name, done in zip(names, results, strict=True):
        lines = done.out.splitlines()
        assert (done.code, done.err, lines[0]) == (0, "", HEADLINE)
        place = "line " if name == str(NOTEBOOK) else f"{re.escape(name)}:"
        assert re.match(rf"  {place}\d+( \(\d+ times\))?  ", lines[lines.index("evidence") + 1])
    assert results[0].out.replace("a.log", "a.log.gz") == results[1].out
    assert results[3].out.replace("notebook.log:", "line ") == results[4].out


@pytest.mark.parametrize("source", [OOM, NOTEBOOK], ids=lambda path: path.suffix)
def test_standard_input_is_read_as_a_file_is(source: Path, tmp_path: Path) -> None:
    """From a pipe, packed or not, named - or not at all; lines have numbers without a name."""
    plain = piped(source.read_bytes(), "-", home=tmp_path)
    assert (plain.returncode, plain.stderr) == (0, b"")
    shown = plain.stdout.decode()
    assert shown.startswith(f"{HEADLINE}\n")
    assert "\nevidence\n  line " in shown
    packed = gzip.compress(source.read_bytes(), mtime=0)
    assert piped(packed, home=tmp_path).stdout == plain.stdout


def test_a_pipe_by_name(folder: Path) -> None:
    """``gpuconf explain <(zcat a.gz)`` gives a file that cannot be read twice."""
    line = f"exec {sys.executable} -m gpuconf explain <(cat a.log.gz)"
    done = run(["bash", "-c", line], folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, HEADLINE), done.stderr


def test_an_empty_log_is_no_failure(folder: Path) -> None:
    """One line, exit 0; no input at all is the same."""
    (done,) = run_commands(folder, ["explain", "empty.log"])
    said = "no known GPU problem (not-a-gpu-problem): the log is empty\n"
    assert done == Done(0, said, "", "explain")
    assert piped(b"", "-", home=folder).stdout == said.encode()


def test_without_standard_input(folder: Path) -> None:
    """A service is started without it: usage, in words, with one document where JSON is asked."""
    line = f"{sys.executable} -m gpuconf explain - --json <&-"
    done = run(["bash", "-c", line], folder)
    document = Done(done.returncode, done.stdout, done.stderr, "explain").document
    assert done.returncode == 2
    assert "standard input" in document["error"]["message"]
    unnamed = run(["bash", "-c", line.replace("- --json ", "")], folder)
    assert unnamed.returncode == 2
    assert "there is no log to explain" in unnamed.stderr
    assert "hint: gpuconf explain train.log" in unnamed.stderr


def test_a_reader_that_wants_the_first_line(folder: Path) -> None:
    """``gpuconf explain -v LOG | head -1``: exit 0 and no traceback, also if it has gone already.

    A report fits into a pipe, so `head` may end before it is written, or after.
    """
    line = f"{sys.executable} -m gpuconf explain -v a.log | head -1; echo ${{PIPESTATUS[0]}}"
    done = run(["bash", "-c", line], folder)
    assert (done.stdout.splitlines(), done.stderr) == ([HEADLINE, "0"], "")
    reader, writer = os.pipe()
    os.close(reader)
    gone = subprocess.run(
        gpuconf("explain", "-v", "a.log"),
        stdout=writer,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=clean_environment(folder),
        check=False,
    )
    os.close(writer)
    assert (gone.returncode, gone.stderr) == (0, b"")


def test_documents(folder: Path) -> None:
    """Exactly one for each log, with the answer of the text; exit 0 whatever was found."""
    results = run_commands(folder, *(["explain", "--json", str(log)] for log in LOGS))
    for log, done in zip(LOGS, results, strict=True):
        assert (done.code, done.err) == (0, ""), log
        assert done.document["schema_version"] == 1
    severities = {done.document["severity"] for done in results}
    assert severities == {"failure", "silent-cpu-fallback", "warning-only", "not-gpu"}


def test_verbose_has_what_the_short_report_leaves_out(folder: Path) -> None:
    """Tables, every line of evidence, every change; a row is a line where it is not a terminal."""
    log = str(SIMULATED / "logs" / "oom-session-report.log")
    short, long = run_commands(folder, ["explain", log], ["explain", "-v", log])
    assert "memory by layer" not in short.out
    assert "\nlayer       memory  node\nconv1      900 MiB\n" in long.out
    assert "harmless:" in long.out
    assert len(long.out.splitlines()) > len(short.out.splitlines()) + 15


def test_pictures(folder: Path) -> None:
    """PNG and SVG, told on stderr, also next to a document; a log without a dump has none."""
    done = run_commands(
        folder,
        ["explain", "a.log", "--plot", "a.png"],
        ["explain", "a.log", "--plot", "a.svg", "--json"],
        ["explain", str(HEALTHY), "--plot", "none.png"],
    )
    assert [each.code for each in done] == [0, 0, 0]
    assert done[0].err == "wrote a.png\n"
    assert done[1].document["cause"] == "oom-device-tensor"
    assert done[2].err.startswith("no plot was drawn: the log has no allocator dump")
    assert (folder / "a.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (folder / "a.svg").read_text(encoding="utf-8")
    assert not (folder / "none.png").exists()


def test_a_picture_that_fails_loses_no_diagnosis(folder: Path) -> None:
    """/dev/full takes no byte: everything is told, then the error, and exit 1."""
    (folder / "full.png").symlink_to("/dev/full")
    (done,) = run_commands(folder, ["explain", "a.log", "--plot", "full.png"])
    assert done.code == 1
    assert done.out.startswith(HEADLINE)
    assert done.err.startswith("gpuconf: error: --plot full.png: No space left")


def test_a_terminal_that_knows_no_unicode(tmp_path: Path) -> None:
    """× and ≥ become question marks, of the log's own letters too; no traceback."""
    log = "ResourceExhaustedError: OOM when allocating tensor with shape[2,3] größer\n"
    done = piped(log.encode(), "-", "-v", home=tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"2 ? 3 ? 4 B = 24 B" in done.stdout
    assert b"gr??er" in done.stdout


def test_color(folder: Path) -> None:
    """Where it is requested; by itself, only a terminal gets it."""
    auto, always, never = run_commands(
        folder,
        ["explain", "a.log"],
        ["explain", "a.log", "--color", "always"],
        ["--color", "never", "explain", "a.log"],
    )
    assert always.out.startswith("\x1b[1;31mno room")
    assert auto.out == never.out == re.sub(r"\x1b\[[\d;]*m", "", always.out)


@pytest.mark.parametrize(
    "words", [["oom-fit.log"], ["startup-fraction.log", "--verbose"], ["whole-array-evaluate.log"]]
)
def test_a_terminal_of_80_columns(tmp_path: Path, words: list[str]) -> None:
    """Every line fits but what is pasted, which stands whole; no word is lost or cut in two."""
    log = words[0]
    shutil.copy(SIMULATED / "logs" / log, tmp_path)
    command = gpuconf("explain", *words)
    with OnTerminal(command, tmp_path, columns=80) as terminal:
        assert terminal.end() == 0, terminal.raw
    shown, whole = terminal.lines, run(command, tmp_path).stdout.splitlines()
    proposals = explain((tmp_path / log).read_bytes()).proposals
    pastes = {f"{' ' * 9}{line}" for each in proposals for line in each.paste.splitlines()}
    assert {line for line in shown if len(line) > 80} <= pastes
    assert {line for line in whole if line in pastes} <= set(shown)
    assert " ".join(shown).split() == " ".join(whole).split()
    place = next(place for place, line in enumerate(shown) if line.startswith("  the GPU"))
    assert shown[place][22:24].lstrip() == shown[place][23]
    assert shown[place + 1].startswith(" " * 23)


def test_a_terminal_to_paste_into(tmp_path: Path) -> None:
    """`gpuconf explain -` says that it waits, and for what; ^D ends it."""
    with OnTerminal(gpuconf("explain", "-"), tmp_path, columns=80) as terminal:
        terminal.read_until("… reading what is typed or pasted here, until Ctrl-D\r\n")
        terminal.press(b"CUDNN_STATUS_ALLOC_FAILED\n\x04")
        assert terminal.end() == 0
    assert any(line.startswith("no memory for cuDNN") for line in terminal.lines)
