"""The program of an isolated process; its arguments: the caller's pid, a descriptor, and a name.

gpuconf sets its limit first.  Only then are the function and its arguments unpickled, which may
import a framework.
"""

from __future__ import annotations

import io
import linecache
import multiprocessing
import os
import signal
import sys
import types
from collections.abc import Mapping
from contextlib import suppress
from importlib import import_module
from importlib.machinery import ModuleSpec
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, NamedTuple

from gpuconf.isolation.notebook import forward_displays, show_figures
from gpuconf.isolation.pickling import read_value
from gpuconf.isolation.results import write_error, write_result
from gpuconf.session.configure import activation, configure
from gpuconf.support.children.signals import end_with_parent

# The first words of messages.  The second's other part is the frameworks that the call imported.
READY, ANSWERED = "ready", "answered"
# Not Keras: the function may choose another backend.
_FRAMEWORKS = ("tensorflow", "torch", "jax")


class Setup(NamedTuple):
    """What the process takes over from the caller.

    ``main_file`` is the caller's script, None in a notebook, and ``main_name`` its name after
    ``python -m``.  ``settings`` are the arguments of `gpuconf.configure`.  ``imports`` are
    frameworks to import before the call is known.
    """

    path: list[str]
    argv: list[str]
    main_file: str | None
    main_name: str | None
    is_notebook: bool
    settings: Mapping[str, Any]
    imports: list[str]


def main() -> None:
    """Run one call and write its answer."""
    parent, socket = map(int, sys.argv[1:3])
    end_with_parent()
    if os.getppid() != parent:  # it had ended before
        return
    connection = Connection(socket)
    try:
        setup = connection.recv()
        _take_over(setup)
        if setup.is_notebook:
            forward_displays(connection.send)
        if setup.imports:
            _import_ahead(setup)
            connection.send(READY)
        linecache.cache.update(connection.recv())
        call, answer = recv_handle(connection), recv_handle(connection)
    except (EOFError, ConnectionError):  # no call, or the caller has ended
        return
    files = _files_at(socket, answer)
    try:
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
    connection.send((ANSWERED, _imported()))
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
    main = sys.modules["__main__"]
    if setup.main_name is not None:  # where spawned workers import it from
        main.__spec__ = ModuleSpec(setup.main_name, None)
    if setup.main_file is not None:  # the project's profile is searched from here
        main.__file__ = setup.main_file
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.isatty():
            stream.reconfigure(encoding="utf-8", write_through=True)


def _import_ahead(setup: Setup) -> None:
    """Set the limit and import frameworks; if that fails, end, and another process has the call.

    As in a worker that imports its script, a shortage of memory is no error yet, and nothing waits.
    The output is dropped: it would appear in the middle of another call's.
    """
    process: Any = multiprocessing.current_process()
    process._inheriting = True
    kept = [os.dup(1), os.dup(2)]
    with open(os.devnull, "wb") as nowhere:
        for number in (1, 2):
            os.dup2(nowhere.fileno(), number)
    try:
        configure(**setup.settings)
        for name in setup.imports:
            import_module(name)
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        os._exit(1)
    for number, descriptor in enumerate(kept, start=1):
        os.dup2(descriptor, number)
        os.close(descriptor)
    del process._inheriting


def _imported() -> list[str]:
    """Return what the next process may import ahead; a worker would get no session for Keras."""
    made = activation()
    if made is not None and made.session is not None:
        return []
    return [each for each in _FRAMEWORKS if each in sys.modules]


if __name__ == "__main__":
    # For the user's definitions, which must not replace those of this file; __mp_main__ is the name
    # of the same module in multiprocessing's workers.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = types.ModuleType("__main__")
    main()
