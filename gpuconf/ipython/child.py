"""ps and doctor for a notebook, or IPython in a terminal, in their own process.

A process does not see its own lease and must not open its file (see
`gpuconf.machine.leases.lease`).  So a child examines the machine, as the command would, and returns
the answer or prints it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from gpuconf.basics import display
from gpuconf.basics.json_values import decoded, plain
from gpuconf.commands.cli.doctor import PARENT_OPTION
from gpuconf.commands.cli.main import build_parser
from gpuconf.commands.cli.output import Output
from gpuconf.errors import GpuconfError
from gpuconf.ipython.showing import NotebookOutput, Shown
from gpuconf.session.configure import activation
from gpuconf.support.children.run import memory_file, whole_text_of

# Commands that read leases, and so must not run in a process that may hold one.
IN_A_CHILD = ("ps", "doctor")
_PROGRAM = "from gpuconf.ipython.child import main; main()"
_PRINTING_PROGRAM = "from gpuconf.ipython.child import print_answer; print_answer()"
_INTERRUPTED = 130


def ask_child(words: Sequence[str], output: NotebookOutput) -> Shown:
    """Return the result of the command ``words``; its errors are raised here.

    The child's progress is shown in this output.
    """
    command = [sys.executable, "-c", _PROGRAM, *_for_child(words)]
    with memory_file("answer") as answer:
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=answer, stderr=subprocess.PIPE, text=True
        )
        said = _follow(child, output)
        text = whole_text_of(answer)
    if child.returncode not in (0, 1):
        raise RuntimeError(f"gpuconf's own process ended with {child.returncode}:\n{said}")
    found = json.loads(text)
    if child.returncode == 1:
        raise GpuconfError(found["message"], hint=found["hint"])
    return decoded(Shown, found)


def run_child(words: Sequence[str]) -> None:
    """Run the command ``words``, which prints directly; its errors are raised here."""
    with memory_file("error") as error:
        command = [sys.executable, "-c", _PRINTING_PROGRAM, str(error), *_for_child(words)]
        code = _run_here(command, error) if sys.stdout.isatty() else _run_apart(command, error)
        said = whole_text_of(error)
    if said:
        raise GpuconfError(**json.loads(said))
    if code == _INTERRUPTED:
        raise KeyboardInterrupt


def _run_here(command: list[str], error: int) -> int:
    """Give the child the terminal; ^C goes to the child, which ends in its own way."""
    sys.stdout.flush()
    with subprocess.Popen(command, pass_fds=[error]) as child:
        while child.poll() is None:
            with suppress(KeyboardInterrupt):
                child.wait()
    return child.returncode


def _run_apart(command: list[str], error: int) -> int:
    """Forward the child's output: a kernel's streams are Python's, and a cell may be captured."""
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=[error],
        check=False,
    )
    sys.stdout.write(done.stdout)
    sys.stderr.write(done.stderr)
    return done.returncode


def _for_child(words: Sequence[str]) -> list[str]:
    """The child's arguments: the child gets the profile in force here from its parent."""
    name, *rest = words
    if name != "doctor" or activation() is None:
        return [*words]
    return [name, f"{PARENT_OPTION}=this session", *rest]


def _follow(child: subprocess.Popen[str], output: NotebookOutput) -> str:
    """Show the child's progress until it ends; return all that it printed to stderr.

    ^C ends the child too, which ends the processes that it has started.
    """
    lines = []
    with child:
        try:
            for line in child.stderr or ():
                lines.append(line)
                if line.startswith("… "):
                    output.progress(line.removeprefix("… ").rstrip())
        except BaseException:
            child.terminate()
            raise
    return "".join(lines)


def main() -> None:
    """The child: its arguments are a command, its answer is JSON on stdout."""
    words = sys.argv[1:]
    options = build_parser(prog="%gpuconf").parse_args(words)
    code = 0
    try:
        answer = plain(_FOUND_BY[words[0]](options))
    except GpuconfError as error:
        answer, code = {"message": error.message, "hint": error.hint}, 1
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()
    sys.exit(code)


def print_answer() -> None:
    """The child that prints: its arguments are a descriptor for errors and a command."""
    _, error, *words = sys.argv
    try:
        options = build_parser(prog="%gpuconf").parse_args(words)
        sys.exit(options.command(options, Output(as_json="--json" in words)))
    except GpuconfError as refused:
        said = {"message": refused.message, "hint": refused.hint}
        os.write(int(error), json.dumps(said).encode())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


def _holdings(options: argparse.Namespace) -> Shown:
    from gpuconf.commands.cli.ps import holdings_for
    from gpuconf.ipython.drawing.holdings import html_for

    found = holdings_for(options)
    return Shown(html_for(found, os.getppid()), display.text_of(found))


def _report(options: argparse.Namespace) -> Shown:
    from gpuconf.commands.cli.doctor import examined, part_words, refuse_bad_words

    part_words(options)
    refuse_bad_words(options)
    report = examined(options, Output())
    return Shown(display.html_of(report), display.text_of(report))


_FOUND_BY: dict[str, Callable[[argparse.Namespace], Shown]] = {
    "ps": _holdings,
    "doctor": _report,
}
