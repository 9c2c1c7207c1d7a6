"""``gpuconf explain``: from a failure's log to its cause and the change."""

from __future__ import annotations

import argparse
import gzip
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from gpuconf.cli.output import Output
from gpuconf.command_line import check_picture
from gpuconf.errors import UsageError

if TYPE_CHECKING:
    from gpuconf.diagnosis import Diagnosis

_CHUNK_BYTES = 1 << 20
_GZIP = b"\x1f\x8b"

_DESCRIPTION = """\
Read what a run printed and say why it failed: the cause, the lines that show
it, the tensor and the card, your own line of code, and what to change. The
log may be of any length and encoding, compressed with gzip, a notebook
(.ipynb), a kernel's log, or a file that TF_BFC_MEMORY_DUMP left. Nothing is
run and nothing leaves this machine."""

_EXAMPLES = """\
examples:
  gpuconf explain train.log
  python train.py 2>&1 | tee train.log | gpuconf explain -
  gpuconf explain --verbose training.ipynb
  gpuconf explain --plot memory.png train.log   # what held the memory
  gpuconf explain --json train.log | jq .cause

exit codes: 0 the log was read, whatever was found in it; 1 it cannot be read;
2 bad usage, as a file that is not there; 3 a bug in gpuconf."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add this command's arguments."""
    parser = commands.add_parser(
        "explain",
        help="say from a log why a run failed, and what to change",
        description=_DESCRIPTION,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("log", metavar="LOGFILE", help="what the run printed; - for standard input")
    add("--plot", metavar="FILE",
        help="draw what held the card's memory, as FILE.png or FILE.svg")  # fmt: skip
    add("-v", "--verbose", action="store_true",
        help="every line, every change, and tables of what held the memory")  # fmt: skip
    add("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(command=run)


def run(options: argparse.Namespace, output: Output) -> int:
    """Read, say what was found, and draw it where that is asked for."""
    output.as_json = options.json
    if options.plot is not None:
        check_picture(options.plot)
    diagnosis = _explained(options.log)
    drawn = None if options.plot is None else _draw(diagnosis, options.plot)
    if options.json:
        output.document(diagnosis.as_dict())
    else:
        _tell(diagnosis, options, output)
    output.flush()
    if drawn is not None:
        output.note(drawn)
    return 0


def _explained(name: str) -> Diagnosis:
    from gpuconf.diagnosis import explain, explain_chunks
    from gpuconf.diagnosis.memory_map import looks_like_memory_map

    if name == "-":
        return explain_chunks(_chunks(sys.stdin.buffer))
    path = Path(name)
    try:
        with _opened(path) as file:
            start = file.read(64)
            file.seek(0)
            if looks_like_memory_map(start) or path.suffix == ".ipynb":
                return explain(file.read())
            return explain_chunks(_chunks(file))
    except FileNotFoundError:
        raise UsageError(
            f"there is no file {name}", hint="give the file that holds what the run printed"
        ) from None
    except IsADirectoryError:
        raise UsageError(f"{name} is a folder", hint=f"ls -lt {name} | head") from None
    except (gzip.BadGzipFile, EOFError) as error:
        raise UsageError(
            f"{name} is compressed and broken: {error}", hint=f"gzip --test {name}"
        ) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(f"{name} cannot be read: {reason}", hint=f"ls -l {name}") from None


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    start = file.read(2)
    file.seek(0)
    if start != _GZIP:
        return file
    file.close()
    return gzip.open(path)  # type: ignore[return-value]  # it reads and seeks as a file does


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk


def _tell(diagnosis: Diagnosis, options: argparse.Namespace, output: Output) -> None:
    from gpuconf.diagnosis.tables import tables_of
    from gpuconf.diagnosis.text import styled_lines

    source = "" if options.log == "-" else options.log
    for text, style in styled_lines(diagnosis, verbose=options.verbose, source=source):
        if style == "cyan":  # to be pasted
            output.line(text, style)
        else:
            output.prose(text, style)
    for table in tables_of(diagnosis) if options.verbose else ():
        output.line()
        output.line(table.title, "bold")
        output.table(table.columns, table.rows)


def _draw(diagnosis: Diagnosis, path: str) -> str:
    """Draw the picture; what to say of it.  No diagnosis is lost for a picture."""
    from gpuconf.diagnosis import plot

    if diagnosis.facts.dump is None and diagnosis.facts.allocations is None:
        return (
            "no picture was drawn: the log has no dump of the allocator "
            "(TF_CPP_MIN_LOG_LEVEL=0 lets TensorFlow write one)"
        )
    try:
        plot.draw(diagnosis, path)
    except OSError as error:
        return f"gpuconf: error: --plot {path}: {error.strerror or error}; no picture"
    return f"the picture is in {path}"
