"""ps and doctor for a notebook, or IPython in a terminal, in their own process.

A process does not see its own lease and must not open its file (see
`gpuconf.machine.leases.lease`).  So a child examines the machine, and prints what the command does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

from gpuconf.commands.cli.doctor import PARENT_OPTION
from gpuconf.commands.cli.main import build_parser
from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError
from gpuconf.session.configure import activation
from gpuconf.support.children.run import memory_file, whole_text_of

# Commands that read leases, and so must not run in a process that may hold one.
IN_A_CHILD = ("ps", "doctor")
_PROGRAM = "from gpuconf.ipython.child import print_answer; print_answer()"
_INTERRUPTED = 130


def run_child(words: Sequence[str], *, color: bool) -> None:
    """Run the command ``words``, which prints directly; its errors are raised here.

    Notebooks show colors although their output is not a terminal, so ``color`` requests them.
    """
    with memory_file("error") as error:
        command = [sys.executable, "-c", _PROGRAM, str(error), *_for_child(words)]
        run = _run_here if sys.stdout.isatty() else _run_apart
        code = run(command, error, {**os.environ, **({"FORCE_COLOR": "1"} if color else {})})
        said = whole_text_of(error)
    if said:
        raise GpuconfError(**json.loads(said))
    if code == _INTERRUPTED:
        raise KeyboardInterrupt


def _run_here(command: list[str], error: int, environ: dict[str, str]) -> int:
    """Give the child the terminal; ^C goes to the child, which ends in its own way."""
    sys.stdout.flush()
    with subprocess.Popen(command, pass_fds=[error], env=environ) as child:
        while child.poll() is None:
            with suppress(KeyboardInterrupt):
                child.wait()
    return child.returncode


def _run_apart(command: list[str], error: int, environ: dict[str, str]) -> int:
    """Forward the child's output as it arrives: a kernel's streams are Python's own.

    ^C ends the child too, which ends the processes that it has started.
    """
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=[error],
        env=environ,
    ) as child:
        try:
            for line in child.stdout or ():
                sys.stdout.write(line)
        except BaseException:
            child.terminate()
            raise
    return child.returncode


def _for_child(words: Sequence[str]) -> list[str]:
    """The child's arguments, which make the child take the active profile from its parent."""
    name, *rest = words
    if name != "doctor" or activation() is None:
        return [*words]
    return [name, f"{PARENT_OPTION}=this session", *rest]


def print_answer() -> None:
    """The child: its arguments are a descriptor for errors, and a command."""
    _, error, *words = sys.argv
    try:
        options = build_parser(prog="%gpuconf").parse_args(words)
        options.ipython = True
        sys.exit(options.command(options, Output(as_json="--json" in words)))
    except GpuconfError as refused:
        said = {"message": refused.message, "hint": refused.hint}
        os.write(int(error), json.dumps(said).encode())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
