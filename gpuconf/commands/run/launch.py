"""From a request to the command: plan, lease, set the environment, and exec the command.

The process stays the same: its pid, its terminal, its exit code, the signals sent to it, and the
lease, whose file descriptor stays open.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import gpuconf
from gpuconf.basics.environment import RUN_VARIABLE, switched_off
from gpuconf.basics.processes import initial_environment_of, program_of
from gpuconf.basics.terminal import say
from gpuconf.commands.run import watcher
from gpuconf.commands.run.planning import decision, plan_run, set_environment
from gpuconf.commands.run.request import Request
from gpuconf.commands.run.unsupported_commands import refuse_unreachable
from gpuconf.errors import UsageError
from gpuconf.injected import with_site
from gpuconf.machine.leases.files import descriptors_of, is_locked
from gpuconf.machine.leases.folder import NoLedgerError
from gpuconf.session import run_variable
from gpuconf.support.children.starting import failed_start, find_command

_PACKAGE = Path(gpuconf.__file__).parent
_SCRIPTS = (".py", ".sh", ".ipynb")
# Python ignores these signals; subprocess restores them too (bpo-1652).
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFZ", "SIGXFSZ")


def launch(
    request: Request,
    words: Sequence[str],
    *,
    more_environ: Callable[[Mapping[str, str]], Mapping[str, str]] = lambda _: {},
) -> NoReturn:
    """Replace this process with the command ``words`` under the plan of ``request``.

    ``more_environ`` receives the environment with the plan and returns more variables. Raises
    UsageError if the plan could not reach the command or the command cannot be started,
    ProfileError, and ShortageError; in these cases, nothing is leased.
    """
    if switched_off(os.environ) is not None:
        find_command(words[0], os.environ)
        say("GPUCONF_DISABLE is set: the command runs without a plan")
    else:
        refuse_unreachable(words, os.environ)
        run = current_run()
        if run is not None:
            _stay_in_run(run, request)
        else:
            _set_up(request, command_name(words))
    environ = _as_it_was_given(os.environ)
    _become(words, {**environ, **more_environ(environ)})


def _set_up(request: Request, program: str) -> None:
    planned = plan_run(request.load(), program)
    settings = set_environment(planned.plan)
    for text in [*planned.plan.notes, *(str(each) for each in settings if each.why_not)]:
        say(text)
    text = run_variable.encode(planned.plan, planned.inventory, planned.leases, str(_PACKAGE))
    os.environ[RUN_VARIABLE] = text
    os.environ["PYTHONPATH"] = with_site(os.environ.get("PYTHONPATH"))
    say(decision(planned.plan, program, is_leased=bool(planned.leases)))
    if planned.leases and os.getpid() != 1:  # pid 1 would become the watcher's parent
        with suppress(OSError, AttributeError):  # Pythons built on old systems lack pidfd_open
            watcher.start(planned.leases)


def current_run() -> run_variable.RunPlan | None:
    """Return the run that this process is in, if its leases are still held, else None.

    Processes of a run may outlive it, for example the server of a terminal multiplexer.  Raises
    UsageError for an unreadable plan.
    """
    run = run_variable.read(os.environ)
    if run is None:
        return None
    try:
        # This process may hold the lease, and opening its own lease file would release it.
        lives = all(descriptors_of(path) or is_locked(path) for path in run.leases.values())
    except NoLedgerError:  # this process has no file descriptors left to check with
        lives = True
    return run if lives else None


def _stay_in_run(run: run_variable.RunPlan, request: Request) -> None:
    """Keep the plan of the current run; raise UsageError if another one is requested."""
    name = run.profile.name
    if not request.is_default:
        raise UsageError(
            f"this is already inside a gpuconf run or shell, whose plan ({name}) applies",
            hint="leave it first (exit), or leave the options out",
        )
    os.environ["PYTHONPATH"] = with_site(os.environ.get("PYTHONPATH"))  # may have been replaced
    say(f"inside a gpuconf run or shell: its plan ({name}) applies")


def command_name(words: Sequence[str]) -> str:
    """Return the name that users know the command by, even behind mpirun: the script or module."""
    name = program_of(words)
    if name != os.path.basename(words[0]):
        return name
    return next((os.path.basename(word) for word in words if word.endswith(_SCRIPTS)), name)


def _as_it_was_given(environ: Mapping[str, str]) -> dict[str, str]:
    """Drop the LC_CTYPE that Python itself sets in the C locale (PEP 538)."""
    initial = initial_environment_of("self")
    is_pythons = initial and "LC_CTYPE" not in initial
    return {name: value for name, value in environ.items() if name != "LC_CTYPE" or not is_pythons}


def _become(words: Sequence[str], environ: Mapping[str, str]) -> NoReturn:
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    for name in _IGNORED_BY_PYTHON:
        number = getattr(signal, name, None)
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(words[0], list(words), dict(environ))
    except OSError as error:
        raise failed_start(words[0], error) from error
