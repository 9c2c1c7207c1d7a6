"""Running the probe's child: bounded in time, its output kept, nothing of it left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from gpuconf.doctor.live.record import LiveStep, Run, read_record
from gpuconf.errors import BackendError

_MARK = "GPUCONF_LIVE_PROBE"
_POLL_S = 0.05
_LONGEST_END_S = 5.0  # what is stuck inside the driver ends after it, or never
_HEAD_BYTES = 64 * 1024
_TAIL_BYTES = 256 * 1024


def run_child(
    *,
    profile: str | None,
    only: int | None,
    timeout_s: float,
    progress: Callable[[str], None],
    share_if_several: float = 1.0,
    environ: Mapping[str, str] = os.environ,
    python: str = sys.executable,
) -> Run:
    """Run one child to its end, or for ``timeout_s`` seconds; tell ``progress`` of each step.

    If it finds several cards, only ``share_if_several`` of that time is its own.  Raises
    BackendError where it cannot be started.
    """
    mark = uuid.uuid4().hex
    with _memory_file("record") as record, _memory_file("output") as output:
        command = [python, "-m", f"{__package__}.program", "--record", str(record)]
        command += [] if only is None else ["--only", str(only)]
        child = _start(command, _child_environ(environ, profile, mark), record, output)
        try:
            limit_s = _watch(child, record, (timeout_s, share_if_several), progress)
        finally:
            is_stuck = not _end(child, mark)
        return Run(
            record=read_record(_read(record)),
            output=_read(output),
            code=child.returncode if limit_s is None else None,
            timeout_s=limit_s or timeout_s,
            only=only,
            is_stuck=is_stuck,
        )


def _child_environ(environ: Mapping[str, str], profile: str | None, mark: str) -> Mapping[str, str]:
    """What the child runs in; TensorFlow is told to name the libraries that it cannot load."""
    modules = environ.get("TF_CPP_VMODULE")
    changes = {
        _MARK: mark,
        "TF_CPP_MIN_LOG_LEVEL": "0",
        "TF_CPP_VMODULE": f"{modules},dso_loader=1" if modules else "dso_loader=1",
    }
    if profile is not None:
        changes["GPUCONF_PROFILE"] = profile
    return {**environ, **changes}


def _start(
    command: list[str], environ: Mapping[str, str], record: int, output: int
) -> subprocess.Popen[bytes]:
    """The child, first of a process group of its own."""
    try:
        return subprocess.Popen(
            command,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[record],
            start_new_session=True,
        )
    except OSError as error:
        raise BackendError(
            f"the probe cannot start {command[0]}: {error.strerror}",
            hint=f"{command[0]} --version",
        ) from error


def _watch(
    child: subprocess.Popen[bytes],
    record: int,
    limits: tuple[float, float],
    progress: Callable[[str], None],
) -> float | None:
    """Wait for the child, which stays a zombie; return the limit in seconds that it overran."""
    started, told = time.monotonic(), 0
    timeout_s, share_if_several = limits
    while True:
        is_over = _has_ended(child)
        written = read_record(_read(record))
        if len(written.steps) > told:
            progress(describe(written.steps[-1]))
            told = len(written.steps)
        if is_over:
            return None
        limit_s = timeout_s * share_if_several if len(written.cards) > 1 else timeout_s
        if time.monotonic() > started + limit_s:
            return limit_s
        time.sleep(_POLL_S)


def describe(step: LiveStep) -> str:
    """A step in a few words, for people who wait."""
    if step.step == "start":
        return "applying the profile, starting TensorFlow"
    where = "GPU" if len(step.cards) == 1 else "GPUs"
    return f"{step.step} on {where} {', '.join(map(str, step.cards))}"


def _has_ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether it has; it is not reaped, so that its number stays that of its group."""
    flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, child.pid, flags) is not None


def _end(child: subprocess.Popen[bytes], mark: str) -> bool:
    """Kill the child and all that came of it; False where something is left that cannot end.

    The group holds what stayed in it; the mark in the environment finds who left.
    """
    deadline = time.monotonic() + _LONGEST_END_S
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    while True:
        with suppress(subprocess.TimeoutExpired):
            child.wait(_POLL_S)
        living = _marked(mark)
        for pid in living:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if child.returncode is not None and not living:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)


def _marked(mark: str) -> list[int]:
    """The living processes with the mark in their environment; a zombie has none any more."""
    wanted = f"{_MARK}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
    return found


@contextmanager
def _memory_file(name: str) -> Iterator[int]:
    """A file in memory, which no full disk refuses and no death of its writer empties."""
    descriptor = os.memfd_create(f"gpuconf-{name}")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _read(descriptor: int) -> str:
    """What was written so far, without the middle of a long text."""
    size = os.fstat(descriptor).st_size
    if size <= _HEAD_BYTES + _TAIL_BYTES:
        data = os.pread(descriptor, size, 0)
    else:
        tail = os.pread(descriptor, _TAIL_BYTES, size - _TAIL_BYTES)
        data = os.pread(descriptor, _HEAD_BYTES, 0) + b"\n[...]\n" + tail
    return data.decode("utf-8", "replace")
