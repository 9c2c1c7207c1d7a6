"""One process for one call: it is started, its output is forwarded, and no trace of it remains."""

from __future__ import annotations

import codecs
import linecache
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import wait
from multiprocessing.reduction import send_handle
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary, finalize

from gpuconf.basics.environment import before_gpuconf
from gpuconf.basics.processes import ISOLATED_PROGRAM, program_of, words_of
from gpuconf.basics.state_note import STATE_VARIABLE, encode, read_note
from gpuconf.errors import IsolatedProcessError
from gpuconf.isolation.arguments import write_call
from gpuconf.isolation.child import ANSWERED, READY, Setup
from gpuconf.isolation.notebook import show
from gpuconf.isolation.results import read_answer
from gpuconf.support.children.family import MarkedFamily
from gpuconf.support.children.run import memory_file
from gpuconf.support.children.signals import signal_name

_POLL_S = 0.1
_INTERRUPT_S = 20.0  # for the function's clean-up after Ctrl-C
_EXIT_S = 10.0  # for exit functions after the answer
_TAIL_CHARACTERS = 4000  # of stderr
# Modules in the working directory do not replace those that the process imports; new in 3.11.
_SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []


def run_call(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    settings: Mapping[str, Any],
    timeout_s: float | None,
    ahead_for: Callable[..., Any] | None,
) -> Any:
    """Return what the function returns in its own process, or raise what it raises.

    ``settings`` are the arguments for `gpuconf.configure` in that process. The call takes at most
    ``timeout_s``. With ``ahead_for``, the decorated function, its process has started ahead if
    possible.
    Raises UsageError if an argument cannot be sent to the process, before the process starts, and
    IsolatedProcessError if the process ends without an answer.
    """
    with memory_file("call") as call, memory_file("answer") as answer:
        write_call(call, function, args, kwargs)
        ahead = None if ahead_for is None else _ahead_of(ahead_for)
        process = ahead.take(settings, timeout_s) if ahead is not None else None
        process = process or Process(settings)
        with ExitStack() as finally_, process.family:
            finally_.callback(process.close)  # when the family has ended, and writes no more
            process.begin(call, answer, timeout_s)
            if ahead is not None:
                ahead.start_next(settings)
            process.wait_for_end()
        if ahead is not None:
            ahead.imports = process.imported or ahead.imports
            ahead.start_next(settings)  # after the first call, whose imports are known only now
        if not process.has_answered:
            raise process.failure()
        return read_answer(answer)


class Ahead:
    """Processes for later calls of a function, which have already imported its frameworks.

    One starts while a call runs, with what the last call had imported.  It uses no GPU, and has
    neither memory nor a lease.
    """

    def __init__(self) -> None:
        self._processes: list[Process] = []
        self.imports: Sequence[str] = ()

    def take(self, settings: Mapping[str, Any], timeout_s: float | None) -> Process | None:
        """Return the process that waits, if a new one would be like it and it is ready in time."""
        try:
            process = self._processes.pop()
        except IndexError:
            return None
        with ExitStack() as unless_taken:
            unless_taken.callback(process.end)
            is_fresh = process.origin == _origin(settings, process.origin.setup.imports)
            if is_fresh and process.is_ready(timeout_s):
                unless_taken.pop_all()
                return process
        return None

    def start_next(self, settings: Mapping[str, Any]) -> None:
        """Start a process for the next call, if there is something to import and none waits."""
        if self.imports and not self._processes:
            self._processes.append(Process(settings, self.imports))

    def end(self) -> None:
        """End the processes that wait."""
        while self._processes:
            self._processes.pop().end()


_aheads: WeakKeyDictionary[Callable[..., Any], Ahead] = WeakKeyDictionary()


def _ahead_of(function: Callable[..., Any]) -> Ahead:
    """Return a decorated function's processes, which end with it or with this process."""
    if function not in _aheads:
        _aheads[function] = made = Ahead()
        finalize(function, made.end)
    return _aheads[function]


class _Origin(NamedTuple):
    """What a process takes over at its start; if it has changed since, another one is started."""

    setup: Setup
    environ: dict[str, str]
    folder: tuple[int, ...]
    terminals: tuple[bool, bool]
    caller: int


def _origin(settings: Mapping[str, Any], imports: Sequence[str]) -> _Origin:
    main = sys.modules["__main__"]
    folder = os.stat(".")  # which works in one that has been removed
    setup = Setup(
        path=[entry or os.getcwd() for entry in sys.path],
        argv=list(sys.argv),
        main_file=getattr(main, "__file__", None),
        main_name=getattr(getattr(main, "__spec__", None), "name", None),
        is_notebook="ipykernel" in sys.modules,
        settings=settings,
        imports=list(imports),
    )
    terminals = _is_terminal(sys.stdout, 1), _is_terminal(sys.stderr, 2)
    return _Origin(setup, _environment(), folder[1:3], terminals, os.getpid())


class Process:
    """The caller's view of a process.  It starts now, and waits for its call."""

    def __init__(self, settings: Mapping[str, Any], imports: Sequence[str] = ()) -> None:
        self.origin = _origin(settings, imports)
        self.family = MarkedFamily()
        self._connection, theirs = multiprocessing.Pipe()
        with theirs:
            words = os.getpid(), theirs.fileno()
            name = program_of(words_of(os.getpid()))
            out, err = (None if each else subprocess.PIPE for each in self.origin.terminals)
            self._child = self.family.start(
                [sys.executable, *_SAFE_PATH, "-m", ISOLATED_PROGRAM, *map(str, words), name],
                self.origin.environ,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                pass_fds=[theirs.fileno()],
            )
        self._streams = {
            pipe: (name, codecs.getincrementaldecoder("utf-8")("replace"))
            for name, pipe in (("stdout", self._child.stdout), ("stderr", self._child.stderr))
            if pipe is not None
        }
        self._sources: list[Any] = [self._connection, *self._streams]
        self._stderr = ""
        self._is_interrupted = False
        self.has_answered = False
        self.imported: list[str] = []
        # When the process must end, and what that means for the caller.
        self._deadline: tuple[float, BaseException | None] | None = None
        self._send(self.origin.setup)

    def is_ready(self, timeout_s: float | None) -> bool:
        """Whether the process has imported what it was to import, within ``timeout_s``."""
        with suppress(EOFError, OSError):
            return self._connection.poll(timeout_s) and self._connection.recv() == READY
        return False

    def begin(self, call: int, answer: int, timeout_s: float | None) -> None:
        """Let the process run the call in one memory file, and write its answer to the other."""
        if timeout_s is not None:
            late = f"the isolated function did not end within {timeout_s:g} s and was stopped"
            self._deadline = time.monotonic() + timeout_s, IsolatedProcessError(late)
        self._send(_cells(), call, answer)

    def _send(self, value: object, *descriptors: int) -> None:
        with suppress(ConnectionError):  # it has already ended, which is reported later
            self._connection.send(value)
            for each in descriptors:
                send_handle(self._connection, each, self._child.pid)

    def end(self) -> None:
        """End a process that has no call, unless it belongs to the process that has forked us."""
        if self.origin.caller == os.getpid():
            self.family.end()
        for each in self._sources:
            each.close()

    def wait_for_end(self) -> None:
        """Forward what the process writes until it ends or runs out of time.

        Ctrl-C is for the function, which decides what happens; a second one is raised here.
        """
        is_over = False
        while not is_over:
            with self._interrupts_forwarded():
                self._forward(_POLL_S)
                is_over = self._child.poll() is not None or self._is_late()

    @contextmanager
    def _interrupts_forwarded(self) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            if self._is_interrupted:
                raise
            self._is_interrupted = True
            self._deadline = time.monotonic() + _INTERRUPT_S, KeyboardInterrupt()
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGINT)

    def close(self) -> None:
        """Forward the rest of what the process has written."""
        while self._forward(0):
            pass
        self._connection.close()
        for stream in self._streams:
            stream.close()

    def _is_late(self) -> bool:
        if self._deadline is None or time.monotonic() < self._deadline[0]:
            return False
        if self._deadline[1] is not None:
            raise self._deadline[1]
        return True

    def _forward(self, timeout_s: float) -> bool:
        """Forward what arrives within ``timeout_s``; return False if there was nothing."""
        if not self._sources:  # it has closed all, and is about to end
            time.sleep(timeout_s / 20)
            return False
        ready = wait(self._sources, timeout_s)
        for source in ready:
            is_open = self._receive() if source is self._connection else self._write(source)
            if not is_open:
                self._sources.remove(source)
        return bool(ready)

    def _receive(self) -> bool:
        try:
            message = self._connection.recv()
        except (EOFError, OSError):
            return False
        if message[0] == ANSWERED:
            self.has_answered, self.imported = True, message[1]
            self._deadline = time.monotonic() + _EXIT_S, None
        else:
            show(message)
        return True

    def _write(self, source: Any) -> bool:
        """Write to this process's own stream, which a notebook or a test may have replaced."""
        name, decoder = self._streams[source]
        data = os.read(source.fileno(), 65536)
        text = decoder.decode(data, final=not data)
        if name == "stderr":
            self._stderr = (self._stderr + text)[-_TAIL_CHARACTERS:]
        stream = getattr(sys, name)
        if stream is not None and text:
            try:
                stream.write(text)
            except UnicodeEncodeError:
                stream.write(text.encode(stream.encoding, "replace").decode(stream.encoding))
            stream.flush()
        return bool(data)

    def failure(self) -> BaseException:
        """Return the error for a process that has ended without an answer."""
        if self._is_interrupted:
            return KeyboardInterrupt()
        code = self._child.returncode
        how = f"exit code {code}" if code >= 0 else signal_name(-code)
        said = f"; the end of its stderr:\n{self._stderr}" if self._stderr.strip() else ""
        full = "see whether host memory was full: sudo dmesg | grep -i 'out of memory'"
        return IsolatedProcessError(
            f"the isolated process ended without a result: {how}{said}",
            hint=full if code == -signal.SIGKILL else None,
        )


def _cells() -> dict[str, Any]:
    """Return the entries of `linecache` for code that is in no file, such as a notebook's cells."""
    return {
        name: (entry[0], None, *entry[2:])  # without a time linecache does not look for the file
        for name, entry in list(linecache.cache.items())
        if len(entry) == 4 and not os.path.exists(name)
    }


def _environment() -> dict[str, str]:
    """Return the environment as it was before gpuconf, with a note of this process's profile.

    The isolated process makes its own plan: this process may use only the CPU while that one uses a
    GPU.
    """
    environ = before_gpuconf(os.environ)
    note = read_note(os.environ)
    if note is not None:
        environ[STATE_VARIABLE] = encode(note._replace(records=(), gpus=()))
    return environ


def _is_terminal(stream: Any, descriptor: int) -> bool:
    """Whether a stream is this terminal, to which the process can write directly."""
    try:
        return bool(stream.isatty()) and stream.fileno() == descriptor
    except (AttributeError, OSError, ValueError):  # None, without a descriptor, or closed
        return False
