"""One run of the program under rehearsal: start it, watch it, end it, and collect the facts."""

from __future__ import annotations

import contextlib
import json
import math
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import gpuconf
from gpuconf.basics.environment import NO_RESERVE_VARIABLE
from gpuconf.basics.json_shape import json_shape
from gpuconf.basics.json_values import plain
from gpuconf.commands.rehearse.agent.record import WRITABLE
from gpuconf.commands.rehearse.passthrough import Passthrough
from gpuconf.commands.rehearse.trace import Tape, read_tapes
from gpuconf.errors import BackendError
from gpuconf.injected import with_site
from gpuconf.simcard import Card
from gpuconf.support.children.family import AdoptingFamily
from gpuconf.support.children.starting import failed_start

FOLDER_VARIABLE = "GPUCONF_REHEARSAL"
_PACKAGE = Path(gpuconf.__file__).parent
_AGENT = "gpuconf.commands.rehearse.agent.start"
_POLL_S = 0.04
_SILENT_S = 20.0


@json_shape(computed=("package", "agent"))
class Orders(NamedTuple):
    """The agent's orders.  If ``batch`` is None, the program keeps its own.

    ``whole`` shortens every training run to ``steps`` and lets the program continue; otherwise
    everything ends after the first ``steps``.
    """

    steps: int = 3
    batch: int | None = None
    profile: str | None = None
    whole: bool = True

    @property
    def package(self) -> str:
        """The location of gpuconf, for an agent whose Python lacks it."""
        return str(_PACKAGE)

    @property
    def agent(self) -> str:
        """The module whose ``start`` the program calls."""
        return _AGENT


class HeldOnCard(NamedTuple):
    """The memory that all processes of the run held on one GPU at one time, including contexts."""

    time_ns: int
    card: int
    size_bytes: int


class RunResult(NamedTuple):
    """A run that has ended.

    ``code`` is the program's exit code, negative for a signal, and None if it was ended after its
    steps. ``reports`` are those of the processes in which an agent ran, and ``trainer`` is the most
    informative of them. ``tape`` holds its memory events, or None if there are none. ``held``
    records the changes to the GPU's own file during the run. ``unwritten`` is the folder to which
    an agent could not write, so that reports or tape may be missing.
    """

    code: int | None
    reports: tuple[dict[str, Any], ...]
    trainer: dict[str, Any]
    tape: Tape | None
    held: tuple[HeldOnCard, ...]
    stderr: str
    seconds: float
    unwritten: str | None = None


def run_once(
    command: Sequence[str],
    orders: Orders,
    *,
    environ: Mapping[str, str],
    card: Card | None = None,
    is_shown: bool = True,
    stdout_to_stderr: bool = False,
    title: str = "rehearsing",
) -> RunResult:
    """Run ``command`` in ``environ`` until its steps are done or it ends.

    A terminal shows ``title`` and the progress.  Output passes through unless ``is_shown`` is
    False.  When this returns or raises, no process that the command started is left.  Raises
    UsageError for a command that cannot be started.
    """
    started = time.monotonic()
    passthrough = Passthrough(is_shown=is_shown, stdout_to_stderr=stdout_to_stderr)
    with passthrough as sinks, _folder(orders) as folder:
        with AdoptingFamily() as family:
            child = _start(family, command, _with_agent(environ, folder), sinks)
            watch = _Watch(folder, card)
            while child.poll() is None and not watch.is_over():
                sinks.pump(_POLL_S)
                sinks.show(f"… {title}: {watch.look()}")
                sinks.say(watch.notice())
            code = None if watch.is_over() else child.returncode
        sinks.drain()
        reports = read_reports(folder)
        trainer = choose_trainer(reports)
        tape = read_tapes(trainer.get("tapes", ()))
        seconds = time.monotonic() - started
        unwritten = None if (folder / WRITABLE).exists() else str(folder.parent)
        held, stderr = tuple(watch.held), sinks.stderr_tail
        return RunResult(code, reports, trainer, tape, held, stderr, seconds, unwritten)


def read_reports(folder: Path) -> tuple[dict[str, Any], ...]:
    """The agents' reports so far, by pid."""
    reports = []
    for path in sorted(folder.glob("*/report.json")):
        with contextlib.suppress(OSError, ValueError):
            reports.append(json.loads(path.read_text(encoding="utf-8")))
    return tuple(reports)


def choose_trainer(reports: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The most informative process: it ran all the steps, or the most steps, or had errors."""

    def rank(report: dict[str, Any]) -> tuple[bool, int, int, bool, bool]:
        return (
            report.get("ended") == "steps",
            report.get("steps", 0),
            len(report.get("errors", ())),
            "uncaught" in report,
            "tensorflow" in report,
        )

    return max(reports, key=rank, default={})


class _Watch:
    """Checks the agents' reports and the GPU while the program runs."""

    def __init__(self, folder: Path, card: Card | None) -> None:
        self._folder = folder
        self._card = card
        self._cards = card.describe().count if card is not None else 0
        self._reports: tuple[dict[str, Any], ...] = ()
        self.held: list[HeldOnCard] = []
        self._until_notice = time.monotonic() + _SILENT_S

    def look(self) -> str:
        """Read the changes; return the progress in a few words."""
        self._reports = read_reports(self._folder)
        for index in range(self._cards):
            assert self._card is not None
            size = sum(process.used_bytes for process in self._card.processes(index))
            last = next((held for held in reversed(self.held) if held.card == index), None)
            if last is None or last.size_bytes != size:
                self.held.append(HeldOnCard(time.time_ns(), index, size))
        return _progress(choose_trainer(self._reports))

    def notice(self) -> str | None:
        """Return a warning, once, about a program that has not reported; it might run for days."""
        if self._reports or time.monotonic() < self._until_notice:
            return None
        self._until_notice = math.inf
        return (
            f"gpuconf rehearse: no Python process has reported in {_SILENT_S:.0f} s; python -S, "
            "-E and -I keep the agent out, and then nothing ends the script after its steps\n"
        )

    def is_over(self) -> bool:
        """Whether a process has finished its steps and is waiting to be ended."""
        return any(report.get("ended") == "steps" for report in self._reports)


def _progress(report: dict[str, Any]) -> str:
    step = f"step {report['steps']}" if report.get("steps") else ""
    if report.get("cells"):
        return f"cell {report['cells'][-1]['cell']}" + (f", {step}" if step else "")
    if step:
        return step
    if "tensorflow" in report:
        return f"TensorFlow {report['tensorflow']} is imported; no step yet"
    return "started"


def _with_agent(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    path = with_site(environ.get("PYTHONPATH"))
    ours = {"PYTHONPATH": path, FOLDER_VARIABLE: str(folder), NO_RESERVE_VARIABLE: "1"}
    return {**environ, **ours}


@contextmanager
def _folder(orders: Orders) -> Iterator[Path]:
    try:
        folder = Path(tempfile.mkdtemp(prefix="gpuconf-rehearsal-"))
    except OSError as error:
        raise _cannot_write(error) from error
    try:
        try:
            text = json.dumps({**plain(orders), "parent": os.getpid()})
            (folder / "orders.json").write_text(text, encoding="utf-8")
            (folder / WRITABLE).touch()
        except OSError as error:
            raise _cannot_write(error) from error
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _cannot_write(error: OSError) -> BackendError:
    return BackendError(
        f"the rehearsal could not write to {os.environ.get('TMPDIR') or 'the temporary folder'}: "
        f"{error.strerror or error}",
        hint="free some room there, or set TMPDIR to a folder on another disk",
    )


def _start(
    family: AdoptingFamily, command: Sequence[str], environ: Mapping[str, str], sinks: Passthrough
) -> subprocess.Popen[bytes]:
    try:
        child = family.start(
            command,
            environ,
            # A second run would get a stdin that the first has already read.
            stdin=None if sinks.is_shown else subprocess.DEVNULL,
            stdout=sinks.child_stdout,
            stderr=sinks.child_stderr,
        )
    except OSError as error:
        raise failed_start(command[0], error) from error
    sinks.child_has_started()
    return child
