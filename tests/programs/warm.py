"""Programs that share one import of TensorFlow: `Popen` starts them in `warm_server`'s forks.

A program runs warm if its environment has ``WARM_TENSORFLOW``, which the fixtures of this folder
set; if it is ``python [-W error] FILE``, ``python -c CODE`` or ``python -m MODULE`` of this
interpreter; and if no test requested ``FRESH=1``.  It is the starting process's own child, which
has its own pid to wait for.  With the value `CHILDREN`, its child programs run warm as well.

A program whose variables change what TensorFlow's import does starts fresh anyway.  So must
one that depends on the import in other ways: a profile that sets ``TF_USE_LEGACY_KERAS``, a finder
that asks `PathFinder`, `execv`, a command line to be found in /proc.  Such a test says why.
"""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gpuconf.simcard import build_libraries

VARIABLE = "WARM_TENSORFLOW"
CHILDREN = "children"
# What TensorFlow and Keras read when they are imported, and what the server's import finds.
_AT_IMPORT = {
    "KERAS_BACKEND": "tensorflow",
    "TF_USE_LEGACY_KERAS": "0",
    "TF_ENABLE_ONEDNN_OPTS": "0",
}
_PR_SET_CHILD_SUBREAPER = 36


class _Program(NamedTuple):
    """``argv`` as the program sees it, the actions after ``-W``, what ``-c`` or ``-m`` names."""

    argv: list[str]
    warnings: list[str]
    code: str | None = None
    module: str | None = None


def _program(command: Sequence[str]) -> _Program | None:
    """Read a command line of Python; None for one that the server cannot run."""
    if not command or command[0] != sys.executable:
        return None
    words, warnings = list(command[1:]), []
    while words[:1] == ["-W"] and len(words) > 1:
        warnings.append(words[1])
        del words[:2]
    if words[:1] == ["-c"] and len(words) > 1:
        return _Program(["-c", *words[2:]], warnings, code=words[1])
    if words[:1] == ["-m"] and len(words) > 1:
        return _Program(["-m", *words[2:]], warnings, module=words[1])
    if words and not words[0].startswith("-"):
        return _Program(words, warnings)
    return None


class _Server:
    """The process with TensorFlow in it, at the other end of a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._answers = connection.makefile("rb")
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    @classmethod
    def started(cls) -> _Server:
        """Start the process, as a child of this one."""
        ours, theirs = socket.socketpair()
        path = os.pathsep.join([str(build_libraries()), os.environ.get("LD_LIBRARY_PATH", "")])
        environ = {**os.environ, **_AT_IMPORT}
        environ.pop(VARIABLE, None)
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("warm_server.py")), str(theirs.fileno())],
            env={**environ, "LD_LIBRARY_PATH": path, "TF_CPP_MIN_LOG_LEVEL": "0"},
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        theirs.close()
        server = cls(ours)
        server._process = process
        assert server._answers.readline() == b"ready\n", "the warm TensorFlow did not start"
        return server

    def start(self, request: dict[str, Any], descriptors: Sequence[int]) -> int:
        """Return the pid of a program that is this process's own child."""
        reap = ctypes.CDLL(None).prctl
        reap(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        try:
            socket.send_fds(self._socket, [json.dumps(request).encode()], list(descriptors))
            pid = int(self._answers.readline())
            assert self._answers.read(1) == b"."
        finally:
            reap(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return pid

    def close(self) -> None:
        """End the server; its programs go on."""
        self._answers.close()
        self._socket.close()
        if self._process is not None:
            self._process.wait()


_servers: list[_Server] = []  # at most one


def _server() -> _Server:
    if not _servers:
        _servers.append(_Server.started())
    return _servers[0]


def share_imports(connection: int) -> None:
    """Let what this warm program starts run warm, by the server at the other end of the socket."""
    _servers.append(_Server(socket.socket(fileno=connection)))
    subprocess.Popen = Popen  # type: ignore[assignment, misc]
    os.environ[VARIABLE] = "1"


class Popen(subprocess.Popen[str]):
    """`subprocess.Popen`, and a fork of the server for a program that asks to run warm."""

    def _execute_child(self, args: Any, executable: Any, preexec_fn: Any, *rest: Any) -> None:
        pass_fds, folder, environ, shell = rest[1], rest[2], rest[3], rest[6]
        streams, new_session = rest[7:13], rest[18]
        program = None
        if _is_warm(environ or {}) and not shell:
            program = _program([str(word) for word in args])
        if program is None or preexec_fn is not None:
            super()._execute_child(args, executable, preexec_fn, *rest)  # type: ignore[misc]
            return
        own = (0, 1, 2)  # where there is no pipe and no file for the program
        given = [
            theirs if theirs != -1 else number
            for theirs, number in zip((streams[0], streams[3], streams[5]), own, strict=True)
        ]
        request = {
            **program._asdict(),
            "environ": _own(environ),
            "folder": os.fspath(folder or os.getcwd()),
            "parent": os.getpid(),
            "new_session": new_session,
            "shares": environ[VARIABLE] == CHILDREN,
            "descriptors": [*own, *pass_fds],
        }
        try:
            self.pid = _server().start(request, [*given, *pass_fds])
            self._child_created = True
        finally:
            self._close_pipe_fds(*streams)  # type: ignore[attr-defined]


def _is_warm(environ: Mapping[str, str]) -> bool:
    """Whether a program with these variables requests it; the value "" takes it back."""
    imports_alike = all(environ.get(name, value) == value for name, value in _AT_IMPORT.items())
    imports_alike &= "WHOLE_TENSORFLOW" not in environ  # with all that it imports on its way
    return bool(environ.get(VARIABLE)) and imports_alike and "FRESH" not in os.environ


def _own(environ: Mapping[str, str]) -> dict[str, str]:
    """What the program shall see; its own children start as ever."""
    return {os.fsdecode(k): os.fsdecode(v) for k, v in environ.items() if k != VARIABLE}
