"""Runs a command on a simulated GPU as if it were this machine's GPU."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from gpuconf.simcard.card import Card
from gpuconf.simcard.wheels import NO_SUPPORT, WheelSupport
from gpuconf.simcard.xla import XlaSupport
from gpuconf.support.children.starting import failed_start


def run_command(
    card: Card,
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    bridge: Path | None = None,
    wheels: WheelSupport = NO_SUPPORT,
    xla: XlaSupport | None = None,
) -> int:
    """Run ``command`` with ``card`` in its environment; return the exit code that a shell would.

    With ``bridge`` (see `bridge_for_command`) TensorFlow computes on the GPU. PyTorch and JAX need
    ``wheels`` (see `support_for_command`), and XLA needs ``xla`` (see `xla_for_command`).

    Signals are passed on to the command, and this function returns when it exits.  If a signal
    killed the command, the exit code is 128 plus the signal's number.  Raises UsageError for a
    command that cannot be started.
    """
    changed = card.environment(environ, bridge=bridge, wheels=wheels, xla=xla)
    try:
        with _signals_passed_on() as started:
            child = subprocess.Popen(list(command), env=changed)
            started(child)
            code = child.wait()
    except OSError as error:
        raise failed_start(command[0], error) from error
    return code if code >= 0 else 128 - code


@contextmanager
def _signals_passed_on() -> Iterator[Callable[[subprocess.Popen[bytes]], None]]:
    """Forward signals; yield a function that takes the child process to receive them.

    The handlers are set before the child starts, so that no signal can end this process and leave
    the child running.  A signal that arrives before the child is known is sent to it later.
    """
    # Signals that a terminal or supervisor sends to this process, intended for the command.  They
    # are named here because Windows, where this module is imported too, lacks three of them.
    from_the_keyboard = (signal.SIGINT, signal.SIGQUIT)
    passed_on = (*from_the_keyboard, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1)
    children: list[subprocess.Popen[bytes]] = []
    early: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if number in from_the_keyboard and _in_foreground():
            return  # ^C at a terminal has already reached the command
        if children:
            children[0].send_signal(number)
        else:
            early.append(number)

    def started(child: subprocess.Popen[bytes]) -> None:
        children.append(child)
        for number in early:
            child.send_signal(number)

    before = {number: signal.signal(number, handle) for number in passed_on}
    try:
        yield started
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _in_foreground() -> bool:
    """Whether this process and the command are in the terminal's foreground."""
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)
