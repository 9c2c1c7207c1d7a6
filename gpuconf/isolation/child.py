"""The program of an isolated process; its arguments are the caller's pid and three descriptors.

gpuconf sets its limit first.  Only then are the function and its arguments unpickled, which may
import a framework.
"""

from __future__ import annotations

import io
import linecache
import os
import signal
import sys
import types
from collections.abc import Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from gpuconf.isolation.notebook import forward_displays, show_figures
from gpuconf.isolation.pickling import read_value
from gpuconf.isolation.results import write_error, write_result
from gpuconf.session.configure import configure
from gpuconf.support.children.signals import end_with_parent

ANSWERED = "answered"


class Setup(NamedTuple):
    """What the process takes over from the caller.

    ``main_file`` is the caller's script, None in a notebook, and ``main_name`` its name after
    ``python -m``. ``sources`` are the entries of `linecache` for code that is not in a file, such
    as a notebook's cells. ``settings`` are the arguments of `gpuconf.configure`.
    """

    path: list[str]
    argv: list[str]
    main_file: str | None
    main_name: str | None
    sources: Mapping[str, Any]
    is_notebook: bool
    settings: Mapping[str, Any]


def main() -> None:
    """Run one call and write its answer."""
    parent, socket, call, answer = map(int, sys.argv[1:])
    end_with_parent()
    if os.getppid() != parent:  # it had ended before
        return
    connection = Connection(socket)
    try:
        setup = connection.recv()
    except EOFError:
        return
    files = _files_at(socket, answer)
    try:
        _take_over(setup)
        if setup.is_notebook:
            forward_displays(connection.send)
        configure(**setup.settings)
        function, args, kwargs = read_value(call)
        result = function(*args, **kwargs)
        del function, args, kwargs
        show_figures()
        _end_unless_open(files, socket, answer)
        write_result(answer, result)
    except BaseException as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        _end_unless_open(files, socket, answer)
        write_error(answer, error)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection.send(ANSWERED)
    connection.close()


def _files_at(*descriptors: int) -> list[object]:
    """Return what identifies the files that these descriptors refer to."""
    return [os.fstat(each)[1:3] for each in descriptors]


def _end_unless_open(files: list[object], *descriptors: int) -> None:
    """End this process if it cannot answer, before it writes to one of the function's files."""
    with suppress(OSError):
        if _files_at(*descriptors) == files:
            return
    said = "the function has closed one of gpuconf's file descriptors, so its result cannot be sent"
    print(said, file=sys.stderr, flush=True)
    os._exit(1)


def _take_over(setup: Setup) -> None:
    sys.path[:] = setup.path
    sys.argv[:] = setup.argv
    linecache.cache.update(setup.sources)
    main = sys.modules["__main__"]
    if setup.main_name is not None:  # where spawned workers import it from
        main.__spec__ = ModuleSpec(setup.main_name, None)
    if setup.main_file is not None:  # the project's profile is searched from here
        main.__file__ = setup.main_file
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", write_through=True)


if __name__ == "__main__":
    # For the user's definitions, which must not replace those of this file; __mp_main__ is the name
    # of the same module in multiprocessing's workers.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = types.ModuleType("__main__")
    main()
