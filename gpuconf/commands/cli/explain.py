"""``gpuconf explain``: find the cause of a failure in its log, and the change that fixes it."""

from __future__ import annotations

import argparse
import gzip
import shlex
import sys
import zlib
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, cast

from gpuconf.commands.cli.output import Drawn, Output, drawn
from gpuconf.errors import GpuconfError, UsageError
from gpuconf.support.command_line import check_picture, describe

if TYPE_CHECKING:
    from gpuconf.commands.explain import Diagnosis

_CHUNK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"
# Files that are not logs, by their first bytes, with a hint how to get the log.
_NO_LOGS = (
    (b"\xfd7zXZ", "compressed with xz", "xz --decompress --stdout {0} | gpuconf explain -"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "zstd -dc {0} | gpuconf explain -"),
    (b"BZh", "compressed with bzip2", "bzip2 -dc {0} | gpuconf explain -"),
    (b"PK\x03\x04", "a zip archive", "unzip -p {0} | gpuconf explain -"),
    (b"\x89PNG", "an image", "copy the text instead"),
    (b"\xff\xd8\xff", "an image", "copy the text instead"),
    (b"%PDF", "a PDF", "pdftotext {0} - | gpuconf explain -"),
)
_SAMPLE_BYTES = 4096
# Zeros occur in UTF-16, and in a log that was truncated while its program was still writing.
_CONTROLS_OF_TEXT = frozenset(b"\x00\a\b\t\n\v\f\r\x1b")

_DESCRIPTION = """\
Read what a run printed, and show why it failed: the cause, your own line of
code, the tensor and the GPU, what to change, and the lines that show it. The
log may be of any length and encoding, compressed with gzip, a notebook
(.ipynb), or a kernel's log. Nothing is run, and nothing leaves this machine."""

_EXAMPLES = """\
examples:
  gpuconf explain train.log
  python train.py 2>&1 | tee train.log | gpuconf explain
  gpuconf explain --verbose training.ipynb
  gpuconf explain --plot memory.png train.log   # what used the memory
  gpuconf explain --json train.log | jq .cause

exit codes:
  0  the log was read, even if it shows a failure
  1  the log is broken, or the plot could not be written
  2  bad usage, such as a missing file
  3  a bug in gpuconf
  4  a required library is not installed"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Set this command's description and add its arguments."""
    describe(parser, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("log", metavar="LOGFILE", nargs="?",
        help="the output of a run; - for standard input (the default for a pipe)")  # fmt: skip
    add("--plot", metavar="FILE",
        help="draw the GPU's memory use, as FILE.png or FILE.svg")  # fmt: skip
    add("-v", "--verbose", action="store_true",
        help="every line, every change, and tables of memory use")  # fmt: skip
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Read the log, print the diagnosis, and draw it if requested."""
    output.as_json = options.json
    if options.log is None:
        options.log = _piped()
    if options.plot is not None:
        check_picture(options.plot)
    diagnosis = explained(options.log, output)
    picture = _drawn(diagnosis, options.plot)
    if options.json:
        output.document(diagnosis)
    else:
        _show(diagnosis, options, output)
    output.flush()
    if picture.said is not None:
        output.note(picture.said)
    return picture.code


def _piped() -> str:
    """Return the name for standard input if it is a pipe; raise UsageError if there is no log."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError(
            "there is no log to explain: name the file that holds the run's output, or use - to "
            "paste it",
            hint="gpuconf explain train.log",
        )
    return "-"


def explained(name: str, output: Output) -> Diagnosis:
    """Diagnose a file, or standard input for -; raise UsageError if it is not a log."""
    shown = "standard input" if name == "-" else name
    try:
        if name == "-":
            return _read(_stdin(output), shown)
        with open(name, "rb") as file:
            return _read(file, name)
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {name}",
            hint=f"save the run's output: python train.py 2>&1 | tee {shlex.quote(name)}",
        ) from None
    except IsADirectoryError:
        hint = f"ls -lt {shlex.quote(name)} | head"
        raise UsageError(f"{shown} is a folder", hint=hint) from None
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise GpuconfError(
            f"{shown} is compressed, but the compressed data is corrupt: {error}",
            hint=f"gzip --test {shlex.quote(name)}",
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        hint = f"ls -l {shlex.quote(name)}"
        raise UsageError(f"{shown} cannot be read: {reason}", hint=hint) from None


def _stdin(output: Output) -> BufferedReader:
    if sys.stdin is None:  # the process was started without stdin
        raise UsageError(
            "- means standard input, but this process was started without it",
            hint="gpuconf explain train.log",
        )
    if sys.stdin.isatty():
        output.progress("reading what is typed or pasted here, until Ctrl-D")
    return cast(BufferedReader, sys.stdin.buffer)


def _refuse_other_files(start: bytes, shown: str) -> None:
    """Raise UsageError for files that are not text, in which no problem would be found."""
    for magic, what, hint in _NO_LOGS:
        if start.startswith(magic):
            raise UsageError(f"{shown} is {what}, not a log", hint=hint.format(shlex.quote(shown)))
    sample = start[:_SAMPLE_BYTES]
    strange = sum(byte < 32 and byte not in _CONTROLS_OF_TEXT for byte in sample)
    if strange * 20 > len(sample):
        raise UsageError(f"{shown} is not text", hint=f"file {shlex.quote(shown)}")


def _read(file: BufferedReader, shown: str) -> Diagnosis:
    """Diagnose ``file``, which may be a pipe and is read once, front to back."""
    from gpuconf.commands.explain import explain, explain_chunks
    from gpuconf.support.failures.log.notebook import LARGEST_NOTEBOOK

    is_packed = file.peek(len(_GZIP)).startswith(_GZIP)
    chunks = _chunks(cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_packed else file)
    held = [next(chunks, b"")]
    _refuse_other_files(held[0], shown)
    if held[0].lstrip()[:1] == b"{" and b'"cells"' in held[0]:
        # A notebook is parsed as a whole; one that is too large is read as a log.
        while sum(map(len, held)) <= LARGEST_NOTEBOOK:
            more = next(chunks, b"")
            if not more:
                return explain(b"".join(held))
            held.append(more)
    return explain_chunks(chain(held, chunks))


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    """Yield the file in chunks.  A terminal signals EOF only once, with a short chunk."""
    size = _CHUNK_BYTES
    while size == _CHUNK_BYTES:
        chunk = file.read(_CHUNK_BYTES)
        size = len(chunk)
        if chunk:
            yield chunk


def _show(diagnosis: Diagnosis, options: argparse.Namespace, output: Output) -> None:
    from gpuconf.commands.explain.tables import tables_of
    from gpuconf.commands.explain.text import styled_lines

    # A notebook's lines are cell output, which an editor cannot jump to.
    is_file_of_lines = options.log != "-" and not options.log.endswith(".ipynb")
    source = options.log if is_file_of_lines else ""
    output.lines(styled_lines(diagnosis, verbose=options.verbose, source=source))
    for table in tables_of(diagnosis) if options.verbose else ():
        output.line()
        output.table(table)


def _drawn(diagnosis: Diagnosis, path: str | None) -> Drawn:
    from gpuconf.commands.explain import plot

    if path is not None and not plot.has_picture(diagnosis.facts):
        said = "no plot was drawn: the log has no allocator dump "
        return Drawn(said=f"{said}(TF_CPP_MIN_LOG_LEVEL=0 lets TensorFlow write one)")
    return drawn(plot.draw, diagnosis, path)
