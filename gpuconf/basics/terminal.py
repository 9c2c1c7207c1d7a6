"""How gpuconf talks to the user: one plain line on stderr; whether a stream wants color."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TextIO

_LAYOUT = "\n\t"
# Commands that change variables, as our hints have them; not those that are read before a cell runs
# (LD_LIBRARY_PATH).
_SHELL = re.compile(
    r"(?:unset (?P<names>(?!LD_|PYTHON)[A-Z][A-Z0-9_]*\b(?: [A-Z][A-Z0-9_]*\b)*)"
    r"|export (?P<name>(?!LD_|PYTHON)[A-Z]\w*)=(?P<value>'[^']*'|[^\s;`]*[^\s;`,]))"
    r"(?:\s+(?P<comment>#.*))?(?P<next>; )?"
)


def printable(text: str, *, keep: str = "") -> str:
    """Return ``text`` with control characters and lone surrogates as visible escapes.

    Names of processes, GPUs and files come from elsewhere, and ESC sequences in them would control
    the terminal.  ``keep`` lists characters to leave alone, such as newlines.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else repr(c)[1:-1] for c in text)


def say(text: str) -> None:
    """Write ``gpuconf: text`` to stderr; never raise.

    stderr may be closed, None, deleted, or one of the program's own objects, which may raise
    anything.
    """
    try:
        stream = sys.stderr
        if stream is not None:
            _write(stream, f"gpuconf: {printable(to_paste(text), keep=_LAYOUT)}\n")
    except Exception:
        return


def _write(stream: TextIO, line: str) -> None:
    try:
        stream.write(line)
    except UnicodeEncodeError:  # sys.stderr escapes by itself; the program's own stream may not
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding))
    stream.flush()


def say_instead_of_traceback(error: BaseException) -> None:
    """Show only the message when ``error`` ends the program or a notebook cell.

    An error raised from it is shown as usual.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], raised: BaseException, trace: TracebackType | None) -> None:
        if raised is not error:
            before(kind, raised, trace)
        elif sys.stderr is not None:
            _write(sys.stderr, f"gpuconf: error: {printable(str(error), keep=_LAYOUT)}\n")

    sys.excepthook = hook
    show_no_traceback(error)


def tell_below_traceback(name: str, tell: Callable[[BaseException], None]) -> None:
    """After the traceback, call ``tell`` with the exception that ends the program.

    It replaces the most recently added function if that one has the same ``name``.
    """
    before: Any = sys.excepthook
    if getattr(before, "gpuconf_name", None) == name:
        before = before.before

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        try:
            before(kind, error, trace)
        finally:
            tell(error.with_traceback(trace))

    vars(hook).update(gpuconf_name=name, before=before)
    sys.excepthook = hook


def show_no_traceback(error: BaseException) -> None:
    """In notebooks and IPython, show the message of ``error`` instead of its traceback."""
    text = printable(str(error), keep=_LAYOUT)
    error._render_traceback_ = lambda *_: [f"gpuconf: error: {text}"]  # type: ignore[attr-defined]


def is_in_ipython() -> bool:
    """Whether this process runs in a notebook or in IPython."""
    get_ipython = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return get_ipython is not None and get_ipython() is not None


def for_ipython(text: str) -> str:
    """Return ``text`` with ``export`` and ``unset`` as cell lines; ``%env`` cannot unset."""

    def line_of(found: re.Match[str]) -> str:
        comment = f"{found['comment']}\n" if found["comment"] else ""  # %env would assign it
        if found["name"]:
            line = f"%env {found['name']}={found['value'].strip(chr(39))}"
        else:
            pops = (f'os.environ.pop("{name}", None)' for name in found["names"].split())
            line = "; ".join(("import os", *pops))
        return comment + line + ("\n" if found["next"] else "")

    return _SHELL.sub(line_of, text)


def for_powershell(text: str) -> str:
    """Return ``text`` with ``export`` and ``unset`` as PowerShell has them."""

    def line_of(found: re.Match[str]) -> str:
        if found["name"]:
            line = f'$env:{found["name"]} = "{found["value"].strip(chr(39))}"'
        else:
            line = "; ".join(f"Remove-Item Env:{name}" for name in found["names"].split())
        return "   ".join(filter(None, (line, found["comment"]))) + (found["next"] or "")

    return _SHELL.sub(line_of, text)


def to_paste(text: str) -> str:
    """Return ``text`` with commands as this process's user types them."""
    if is_in_ipython():
        return for_ipython(text)
    return for_powershell(text) if sys.platform == "win32" else text


def is_debugging(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether ``GPUCONF_LOG=debug`` requests output that only gpuconf's developers need."""
    return environ.get("GPUCONF_LOG", "").lower() == "debug"


def debug(text: str, *, environ: Mapping[str, str] = os.environ) -> None:
    """Print ``text`` if ``GPUCONF_LOG=debug`` is set."""
    if is_debugging(environ):
        say(text)


def wants_color(
    stream: TextIO | None, *, choice: str = "auto", environ: Mapping[str, str] = os.environ
) -> bool:
    """Whether to color ``stream``: ``--color`` > NO_COLOR > FORCE_COLOR > whether it is a terminal.

    ``choice`` is ``always``, ``never`` or ``auto``.  An empty NO_COLOR or FORCE_COLOR is ignored,
    as no-color.org and force-color.org specify.  A stream that is closed, or None because the
    process was started without it, is not a terminal.
    """
    if choice != "auto":
        return choice == "always"
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    try:
        is_terminal = stream is not None and stream.isatty()
    except ValueError:  # closed
        return False
    return is_terminal and environ.get("TERM") != "dumb"
